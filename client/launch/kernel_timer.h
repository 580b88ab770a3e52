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
// a launch never waits. Thread-safe.
class KernelTimer {
 public:
  explicit KernelTimer(Driver& driver) : driver_(driver) {}
  // One launch: construct before it, End after it.
  class Measurement {
   public:
    Measurement(KernelTimer& timer, Stream stream);
    void End();

   private:
    KernelTimer& timer_;
    const Stream stream_;
    Event begin_ = nullptr;  // null: dropped
    Event end_ = nullptr;
  };

  // Waits for the launches under way.
  StatusOr<KernelTimes> Read();
  void Reset();
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

  Driver& driver_;
  std::mutex mutex_;
  std::deque<Pending> pending_;
  std::vector<Event> free_;
  KernelTimes times_;
};

}  // namespace kiln::launch
