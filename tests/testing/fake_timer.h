// A timer that rings when a test says so.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "storage/base/timer.h"
#include "tests/testing/fake_clock.h"

namespace kiln {

// Thread-safe. Outlives its alarms.
class FakeTimer final : public Timer {
 public:
  explicit FakeTimer(FakeClock& clock) : clock_(clock) {}

  std::unique_ptr<Alarm> At(SteadyTime when, std::function<void()> callback) override;

  // Moves the clock, then runs what is due, in its order, on the caller's thread.
  void Advance(std::chrono::nanoseconds by);
  // Alarms that are set and have not rung.
  size_t PendingCount() const;

 private:
  class Entry;

  std::function<void()> TakeDue();

  FakeClock& clock_;
  mutable std::mutex mutex_;
  // Held while a callback runs, so that destroying its alarm waits for it; recursive, so that it
  // may destroy its own.
  std::recursive_mutex running_;
  std::map<uint64_t, std::pair<SteadyTime, std::function<void()>>> alarms_;
  uint64_t next_id_ = 1;
};

}  // namespace kiln
