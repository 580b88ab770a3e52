// Finds the fastest of several ways to do the same work.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"
#include "client/launch/launch_plan.h"
#include "client/launch/launcher.h"
#include "client/launch/run_timer.h"
#include "client/launch/saved_memory.h"

namespace kiln::launch {

// One way: a kernel with its launch. Its stream does not count.
struct Candidate {
  std::shared_ptr<Kernel> kernel;  // null: left out
  LaunchCall call;
};

struct CandidateResult {
  Status status;  // why it was left out; OK: it has times
  RunTimes times;
  bool is_stored = false;  // the times come from the store
};

// Where times are kept: see kiln_launch_tuning_store. Null functions: nowhere.
struct TuningStore {
  uint64_t (*find)(void* user, const void* key, uint64_t key_bytes, void* value,
                   uint64_t capacity) = nullptr;
  void (*put)(void* user, const void* key, uint64_t key_bytes, const void* value,
              uint64_t value_bytes) = nullptr;
  void* user = nullptr;
};

struct TuningRequest {
  Stream stream = nullptr;
  std::vector<MemoryRange> reads;   // that launches read
  std::vector<MemoryRange> writes;  // that they write
  std::string problem;              // what the times depend on besides candidate and device
  TimingOptions timing;
  TuningStore store;
  int32_t (*is_cancelled)(void* user) = nullptr;
  void* cancel_user = nullptr;
};

// Times the candidates that the store knows nothing of, one after the other, and puts each time
// into the store at once. Memory that launches both read and write holds, before each run and in
// the end, what it held in the beginning, however the tuning ends.
//
// A candidate that does not run is left out. Nothing runs under capture.
//
// One tuning at a time on each device, since two would measure each other; those of other devices
// are not waited for, since what a stream has to end first may need them. Thread-safe; blocks.
class Tuner {
 public:
  explicit Tuner(Launcher& launcher) : launcher_(launcher) {}

  // The number of the fastest. `results` has one entry for each candidate, on failure too.
  // INVALID_ARGUMENT: candidates of several contexts, a range that is not within an allocation.
  // FAILED_PRECONDITION: a stream captures. RESOURCE_EXHAUSTED: no memory for copies and flush.
  // CANCELLED. If no candidate runs, the first one's status.
  StatusOr<size_t> Tune(const std::vector<Candidate>& candidates, const TuningRequest& request,
                        std::vector<CandidateResult>& results);

 private:
  std::mutex& MutexOf(int device);

  Launcher& launcher_;
  std::mutex mutex_;  // of the map, for moments
  std::map<int, std::mutex> tunings_;
};

}  // namespace kiln::launch
