#include "storage/base/executor.h"

#include <utility>

namespace kiln {

ThreadExecutor::ThreadExecutor(int threads, size_t queue_length_max)
    : queue_length_max_(queue_length_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

ThreadExecutor::~ThreadExecutor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadExecutor::Run(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (queue_.size() < queue_length_max_) {
      queue_.push_back(std::exchange(work, nullptr));
    }
  }
  if (work) {
    work();
  } else {
    changed_.notify_one();
  }
}

void ThreadExecutor::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it captured dies under no lock
    lock.lock();
  }
}

}  // namespace kiln
