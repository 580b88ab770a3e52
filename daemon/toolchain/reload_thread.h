// A thread for work that takes seconds and that many may ask for.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// Runs the work once for all who ask while it has not begun; whoever asks later has it run again,
// so that what was done on disk before one asked is always seen. In between it asks now and then
// whether there is work that nobody has asked for.
//
// Thread-safe.
class ReloadThread {
 public:
  using Done = std::function<void(absl::Status)>;

  struct Work {
    // Ends early where `is_stopping` has become true.
    std::function<void(const std::function<bool()>& is_stopping)> run;
    std::function<bool()> is_due;           // blocks as a disk does
    std::chrono::milliseconds look_time{};  // between two such questions
  };

  explicit ReloadThread(Work work);
  ~ReloadThread() { Stop(); }

  // Calls `done`, if any, once the work was run; with UNAVAILABLE where the daemon stops first. On
  // another thread, or at once.
  void Ask(Done done = nullptr);

  // From now on nothing is begun, and whoever waits is told so at once. Does not block.
  void Refuse();
  // Refuses, and waits for work that has begun. Idempotent, but not on two threads at once.
  void Stop();

 private:
  void Loop();
  // Blocks until somebody has asked, or work is due. False once it stops.
  bool AwaitWork();
  bool IsStopping() const;

  const Work work_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  bool asked_ KILN_GUARDED_BY(mutex_) = false;
  std::vector<Done> waiting_ KILN_GUARDED_BY(mutex_);  // for the next run
  std::vector<Done> running_ KILN_GUARDED_BY(mutex_);  // for the one under way
  std::thread thread_;                                 // last: it uses everything above
};

}  // namespace kiln
