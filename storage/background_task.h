// Runs work on a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// Runs one function on a thread of its own on request. Requests before a run begins count as one. A
// request during a run causes one more run, so a run sees all that was done before its requests.
//
// Thread-safe.
class BackgroundTask {
 public:
  using Done = std::function<void(absl::Status)>;

  struct Work {
    // Must not wait for the task. Ends early where `is_stopping` has become true.
    std::function<void(const std::function<bool()>& is_stopping)> run;
    // Asked now and then whether to run without a request. Blocks as a disk does. Null: never.
    std::function<bool()> is_due = nullptr;
    std::chrono::milliseconds look_time = std::chrono::hours(1);  // between two such questions
  };

  explicit BackgroundTask(Work work);
  ~BackgroundTask() { Stop(); }

  // Never waits for the work. Calls `done`, if any, once the work was run; with UNAVAILABLE where
  // the task stops first. On another thread, or at once.
  void Request(Done done = nullptr);
  // Returns when nothing is requested and nothing runs.
  void WaitUntilIdle();

  // From now on nothing begins, and all who wait are told so at once. Does not block.
  void Refuse();
  // Refuses, and waits for the run under way. Idempotent, but not on two threads at once.
  void Stop();

 private:
  void Loop();
  // Blocks until a run is requested or due. False once the task stops.
  bool AwaitWork();
  bool IsStopping() const;

  const Work work_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool is_stopping_ KILN_GUARDED_BY(mutex_) = false;
  bool is_requested_ KILN_GUARDED_BY(mutex_) = false;
  bool is_running_ KILN_GUARDED_BY(mutex_) = false;
  std::vector<Done> waiting_ KILN_GUARDED_BY(mutex_);  // for the next run
  std::vector<Done> running_ KILN_GUARDED_BY(mutex_);  // for the one under way
  std::thread thread_;                                 // last: it uses everything above
};

}  // namespace kiln
