#include "storage/background_task.h"

#include <utility>

#include "storage/base/mutex.h"

namespace kiln {

BackgroundTask::BackgroundTask(std::function<void()> work)
    : work_(std::move(work)), thread_([this] { Run(); }) {}

BackgroundTask::~BackgroundTask() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void BackgroundTask::Request() {
  {
    MutexLock lock(mutex_);
    is_requested_ = true;
  }
  changed_.NotifyAll();
}

void BackgroundTask::WaitUntilIdle() {
  MutexLock lock(mutex_);
  while (is_requested_ || is_running_) changed_.Wait(mutex_);
}

void BackgroundTask::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!is_requested_ && !stopping_) changed_.Wait(mutex_);
    if (stopping_) return;
    is_requested_ = false;
    is_running_ = true;
    lock.Unlock();
    work_();
    lock.Lock();
    is_running_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace kiln
