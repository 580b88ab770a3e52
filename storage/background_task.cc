#include "storage/background_task.h"

#include <utility>

namespace kiln {

BackgroundTask::BackgroundTask(std::function<void()> work)
    : work_(std::move(work)), thread_([this] { Run(); }) {}

BackgroundTask::~BackgroundTask() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundTask::Request() {
  {
    std::lock_guard lock(mutex_);
    is_requested_ = true;
  }
  changed_.notify_all();
}

void BackgroundTask::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_requested_ && !is_running_; });
}

void BackgroundTask::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_requested_ || stopping_; });
    if (stopping_) return;
    is_requested_ = false;
    is_running_ = true;
    lock.unlock();
    work_();
    lock.lock();
    is_running_ = false;
    changed_.notify_all();
  }
}

}  // namespace kiln
