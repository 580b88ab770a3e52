// Runs work on a thread of its own.
#pragma once

#include <functional>
#include <thread>

#include "storage/base/mutex.h"

namespace kiln {

// Runs one function on a thread of its own on request. Requests before a run begins count as one. A
// request during a run causes one more run.
//
// Thread-safe. The destructor waits for the run under way and drops a requested one.
class BackgroundTask {
 public:
  // `work` must not call Request.
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
  // Last: the thread uses the other members.
  std::thread thread_;
};

}  // namespace kiln
