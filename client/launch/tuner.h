// Finds the fastest of several ways to do the same work.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"
#include "client/launch/launch_plan.h"
#include "client/launch/launcher.h"
#include "client/launch/run_timer.h"
#include "client/launch/saved_memory.h"
#include "storage/base/mutex.h"

namespace kiln::launch {

// A kernel with its launch. The stream of `call` is ignored.
struct Candidate {
  std::shared_ptr<Kernel> kernel;  // null: left out
  LaunchCall call{};
};

struct CandidateResult {
  Status status;  // OK: it has times; otherwise why it was left out
  RunTimes times;
  bool is_stored = false;  // the times come from the store
};

struct TuningRequest {
  Stream stream = nullptr;
  std::vector<MemoryRange> reads;   // launches read these
  std::vector<MemoryRange> writes;  // launches write these
  std::string problem;              // names what else the times depend on
  TimingOptions timing;
  kiln_launch_tuning_store store{};  // null functions: no store
  int32_t (*is_cancelled)(void* user) = nullptr;
  void* cancel_user = nullptr;
};

// Times the candidates that are not in the store, one after the other, and stores each time at
// once. Restores memory that launches both read and write before each run and at the end, also on
// failure.
//
// Leaves out a candidate that does not run. Runs nothing under capture.
//
// One tuning at a time on each device: two would measure each other. Tunings on different devices
// do not wait for each other: work on a stream may need both. Thread-safe; blocks.
class Tuner {
 public:
  explicit Tuner(Launcher& launcher) : launcher_(launcher) {}

  // The index of the fastest. `results` has one entry for each candidate, also on failure.
  // INVALID_ARGUMENT: candidates of several contexts, a range that is not inside an allocation.
  // FAILED_PRECONDITION: a stream captures. RESOURCE_EXHAUSTED: no memory for copies and flush.
  // CANCELLED. If no candidate runs, the first one's status.
  StatusOr<size_t> Tune(const std::vector<Candidate>& candidates, const TuningRequest& request,
                        std::vector<CandidateResult>& results);

 private:
  Mutex& MutexOf(int device);

  Launcher& launcher_;
  Mutex mutex_;
  std::map<int, Mutex> tunings_ KILN_GUARDED_BY(mutex_);  // by the device's number
};

}  // namespace kiln::launch
