// Work that must not hold up the thread that finds it due.
#pragma once

#include <functional>
#include <thread>

#include "storage/base/mutex.h"

namespace kiln {

// Runs one function on a thread of its own each time it is asked for. Requests that come while it
// has not begun are one; what comes while it runs makes it run once more.
//
// Thread-safe. The destructor waits for the run under way; one that has not begun does not happen.
class BackgroundTask {
 public:
  // `work` must not ask for itself.
  explicit BackgroundTask(std::function<void()> work);
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // Never waits for the work.
  void Request();
  // Returns when nothing is requested and nothing runs.
  void WaitUntilIdle();

 private:
  void Run();

  const std::function<void()> work_;
  Mutex mutex_;
  CondVar changed_;
  bool is_requested_ KILN_GUARDED_BY(mutex_) = false;
  bool is_running_ KILN_GUARDED_BY(mutex_) = false;
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  // Last: it uses the others.
  std::thread thread_;
};

}  // namespace kiln
