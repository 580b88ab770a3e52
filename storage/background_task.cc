#include "storage/background_task.h"

#include <utility>

namespace kiln {
namespace {

void TellAll(const std::vector<BackgroundTask::Done>& waiting, const absl::Status& status) {
  for (const BackgroundTask::Done& done : waiting) done(status);
}

}  // namespace

BackgroundTask::BackgroundTask(Work work) : work_(std::move(work)), thread_([this] { Loop(); }) {}

void BackgroundTask::Stop() {
  Refuse();
  if (thread_.joinable()) thread_.join();
}

void BackgroundTask::Request(Done done) {
  {
    const MutexLock lock(mutex_);
    if (!is_stopping_) {
      is_requested_ = true;
      if (done) waiting_.push_back(std::exchange(done, nullptr));
    }
  }
  changed_.NotifyAll();
  if (done) done(Unavailable("the daemon is stopping"));
}

void BackgroundTask::WaitUntilIdle() {
  const MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() KILN_REQUIRES(mutex_) { return !is_requested_ && !is_running_; });
}

void BackgroundTask::Refuse() {
  std::vector<Done> told;
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    is_requested_ = false;
    told.swap(waiting_);
    for (Done& done : running_) told.push_back(std::move(done));
    running_.clear();
  }
  changed_.NotifyAll();
  TellAll(told, Unavailable("the daemon is stopping"));
}

bool BackgroundTask::IsStopping() const {
  const MutexLock lock(mutex_);
  return is_stopping_;
}

bool BackgroundTask::AwaitWork() {
  MutexLock lock(mutex_);
  const auto is_wanted = [this]() KILN_REQUIRES(mutex_) { return is_stopping_ || is_requested_; };
  while (!changed_.WaitFor(mutex_, work_.look_time, is_wanted)) {
    if (!work_.is_due) continue;
    lock.Unlock();
    const bool is_due = work_.is_due();
    lock.Lock();
    if (is_due) break;
  }
  is_requested_ = false;
  is_running_ = !is_stopping_;
  running_.swap(waiting_);
  return is_running_;
}

void BackgroundTask::Loop() {
  while (AwaitWork()) {
    work_.run([this] { return IsStopping(); });
    std::vector<Done> told;
    {
      const MutexLock lock(mutex_);
      is_running_ = false;
      told.swap(running_);
    }
    changed_.NotifyAll();
    TellAll(told, absl::OkStatus());
  }
}

}  // namespace kiln
