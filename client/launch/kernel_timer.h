// How long a kernel's launches take on the device.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "client/launch/driver/driver.h"

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
    // The kernel is on its way: nothing that fails here is a failure of the launch, it only counts
    // as dropped.
    void End() noexcept;

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
  void Release(Context context);

 private:
  struct Pending {
    Event begin;
    Event end;
  };

  // REQUIRES: mutex_ is held.
  void HarvestFinished();
  // REQUIRES: mutex_ is held, and the first pending one has happened.
  Status HarvestFirst();
  Event TakeEvent();
  // REQUIRES: reading_ is held.
  Status HarvestAll();

  Driver& driver_;
  std::mutex reading_;  // taken before mutex_
  std::mutex mutex_;
  std::vector<Pending> pending_;  // in the order of their launches
  std::vector<Event> free_;
  size_t events_ = 0;       // that there are; pending_ and free_ have room for all of them
  uint64_t harvested_ = 0;  // how many have left pending_
  KernelTimes times_;
};

}  // namespace kiln::launch
