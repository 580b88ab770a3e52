// A clock that stands still until a test moves it.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "storage/base/clock.h"

namespace kiln {

// Both readings move together. Thread-safe.
class FakeClock final : public Clock {
 public:
  // 2024-01-01T00:00:00Z: any fixed, plausible moment.
  static constexpr int64_t kStartUnixMillis = 1'704'067'200'000;

  SteadyTime Now() const override;
  int64_t UnixMillis() const override;

  void Advance(std::chrono::nanoseconds by);

 private:
  mutable std::mutex mutex_;
  // Not zero, so that code which takes the zero time for "never" shows itself.
  SteadyTime now_{std::chrono::hours(1000)};
};

}  // namespace kiln
