// The time, injected so that tests need not sleep.
#pragma once

#include <chrono>
#include <cstdint>

namespace kiln {

using SteadyTime = std::chrono::steady_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back; for deadlines and durations.
  virtual SteadyTime Now() const = 0;
  // Milliseconds since the Unix epoch; for what is stored and shown.
  virtual int64_t UnixMillis() const = 0;
};

// The operating system's clocks. Never destroyed.
const Clock& SystemClock();

}  // namespace kiln
