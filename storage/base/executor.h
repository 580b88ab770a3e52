// Runs work on another thread than the caller's.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "storage/base/mutex.h"

namespace kiln {

// Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `work` once, here or on another thread, now or soon.
  virtual void Run(std::function<void()> work) = 0;
};

// A fixed number of threads with a bounded queue. A caller that finds the queue full runs the work
// itself, so nothing is lost and callers slow down to the pace of the threads.
//
// The destructor runs all queued work before it returns.
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(int threads, size_t queue_length_max);
  ~ThreadExecutor() override;

  void Run(std::function<void()> work) override;

 private:
  void Loop();

  const size_t queue_length_max_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ KILN_GUARDED_BY(mutex_);
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kiln
