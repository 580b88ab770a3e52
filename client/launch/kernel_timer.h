// How long a kernel's launches take on the device.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "client/launch/driver.h"

namespace kiln::launch {

struct KernelTimes {
  uint64_t launches = 0;  // measured
  uint64_t dropped = 0;   // not measured: too many were under way
  double total_ms = 0;
  double min_ms = 0;
  double max_ms = 0;
};

// Events around launches; their times are read when they are asked for, or when room is needed, so
// a launch never waits, not for a reader either. Thread-safe.
class KernelTimer {
 public:
  explicit KernelTimer(Driver& driver) : driver_(driver) {}
  // One launch: construct before it, End after it. One that does not End does not count.
  class Measurement {
   public:
    Measurement(KernelTimer& timer, Stream stream);
    ~Measurement();
    Measurement(const Measurement&) = delete;
    Measurement& operator=(const Measurement&) = delete;
    void End();

   private:
    struct NotBegun {};
    Measurement(KernelTimer& timer, Stream stream, NotBegun) : timer_(timer), stream_(stream) {}
    // REQUIRES: the timer's mutex is held.
    void GiveBack();

    KernelTimer& timer_;
    const Stream stream_;
    Event begin_ = nullptr;  // null: dropped, or over
    Event end_ = nullptr;
  };

  // Waits for the launches under way, one reader after the other. `resets`: the next reading begins
  // anew, where this one succeeds.
  StatusOr<KernelTimes> Read(bool resets);
  // Gives its events back to the driver. What is not given back goes with the context.
  void Release();

 private:
  struct Pending {
    Event begin;
    Event end;
  };

  // REQUIRES: mutex_ is held.
  void HarvestFinished();
  Status Harvest(const Pending& pending);
  Event TakeEvent();
  // REQUIRES: reading_ is held.
  std::deque<Pending> TakePending();
  Status HarvestAll(std::deque<Pending>& pending);

  Driver& driver_;
  std::mutex reading_;  // taken before mutex_
  std::mutex mutex_;
  std::deque<Pending> pending_;
  std::vector<Event> free_;  // has room for all
  size_t events_ = 0;        // that there are
  KernelTimes times_;
};

}  // namespace kiln::launch
