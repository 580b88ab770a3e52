// How long a kernel's launches take on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/kiln_launch.h"
#include "storage/base/mutex.h"

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
    void End();

   private:
    void GiveBack() KILN_REQUIRES(timer_.mutex_);

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

  void HarvestFinished() KILN_REQUIRES(mutex_);
  // REQUIRES: the first pending one has happened.
  Status HarvestFirst() KILN_REQUIRES(mutex_);
  // Null: the driver makes none.
  Event TakeEvent() KILN_REQUIRES(mutex_);

  Driver& driver_;
  Mutex reading_;  // taken before mutex_
  Mutex mutex_;
  std::vector<Pending> pending_ KILN_GUARDED_BY(mutex_);  // in the order of their launches
  std::vector<Event> free_ KILN_GUARDED_BY(mutex_);
  uint64_t harvested_ KILN_GUARDED_BY(mutex_) = 0;  // events that have left pending_
  kiln_launch_times times_ KILN_GUARDED_BY(mutex_){};
};

}  // namespace kiln::launch
