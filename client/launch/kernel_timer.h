// How long a kernel's launches take on the device.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/kiln_launch.h"

namespace kiln::launch {

// Records events around launches and reads their times in Read, or when it needs room. A launch
// never waits. Thread-safe.
class KernelTimer {
 public:
  explicit KernelTimer(Driver& driver) : driver_(driver) {}
  // Measures one launch: construct before it, End after it. Without End it does not count.
  class Measurement {
   public:
    Measurement(KernelTimer& timer, Stream stream);
    ~Measurement();
    Measurement(const Measurement&) = delete;
    Measurement& operator=(const Measurement&) = delete;
    // Call it after the launch. A failure here only counts the launch as dropped.
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

  // Waits for the launches under way, one reader at a time. `resets`: the next Read counts from
  // here, if this one succeeds.
  StatusOr<kiln_launch_times> Read(bool resets);
  // Destroys the events. Events that are not destroyed go with their context.
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
  size_t events_ = 0;       // all events; pending_ and free_ have room for each
  uint64_t harvested_ = 0;  // events that have left pending_
  kiln_launch_times times_{};
};

}  // namespace kiln::launch
