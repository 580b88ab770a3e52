#include "storage/base/executor.h"

#include <utility>

#include "storage/base/mutex.h"

namespace kiln {

ThreadExecutor::ThreadExecutor(int threads, size_t queue_length_max)
    : queue_length_max_(queue_length_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

ThreadExecutor::~ThreadExecutor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadExecutor::Run(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (queue_.size() < queue_length_max_) {
      queue_.push_back(std::exchange(work, nullptr));
    }
  }
  if (work) {
    work();
  } else {
    changed_.NotifyOne();
  }
}

void ThreadExecutor::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && queue_.empty()) changed_.Wait(mutex_);
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.Unlock();
    work();
    work = nullptr;  // releases its captures without the lock
    lock.Lock();
  }
}

}  // namespace kiln
