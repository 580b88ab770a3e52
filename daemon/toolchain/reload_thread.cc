#include "daemon/toolchain/reload_thread.h"

#include <utility>

namespace kiln {
namespace {

absl::Status Stopping() { return Unavailable("the daemon is stopping"); }

void TellAll(std::vector<ReloadThread::Done> waiting, const absl::Status& status) {
  for (const ReloadThread::Done& done : waiting) done(status);
}

}  // namespace

ReloadThread::ReloadThread(Work work) : work_(std::move(work)), thread_([this] { Loop(); }) {}

void ReloadThread::Stop() {
  Refuse();
  if (thread_.joinable()) thread_.join();
}

void ReloadThread::Ask(Done done) {
  {
    const MutexLock lock(mutex_);
    if (!stopping_) {
      asked_ = true;
      if (done) waiting_.push_back(std::exchange(done, nullptr));
    }
  }
  changed_.NotifyAll();
  if (done) done(Stopping());
}

void ReloadThread::Refuse() {
  std::vector<Done> told;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    told.swap(waiting_);
    for (Done& done : running_) told.push_back(std::move(done));
    running_.clear();
  }
  changed_.NotifyAll();
  TellAll(std::move(told), Stopping());
}

bool ReloadThread::IsStopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

bool ReloadThread::AwaitWork() {
  MutexLock lock(mutex_);
  const auto is_wanted = [this]() KILN_REQUIRES(mutex_) { return stopping_ || asked_; };
  while (!changed_.WaitFor(mutex_, work_.look_time, is_wanted)) {
    lock.Unlock();
    const bool is_due = work_.is_due();
    lock.Lock();
    if (is_due) break;
  }
  asked_ = false;
  running_.swap(waiting_);
  return !stopping_;
}

void ReloadThread::Loop() {
  while (AwaitWork()) {
    work_.run([this] { return IsStopping(); });
    std::vector<Done> told;
    {
      const MutexLock lock(mutex_);
      told.swap(running_);
    }
    TellAll(std::move(told), absl::OkStatus());
  }
}

}  // namespace kiln
