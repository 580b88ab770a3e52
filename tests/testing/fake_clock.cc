#include "tests/testing/fake_clock.h"

namespace kiln {

SteadyTime FakeClock::Now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

int64_t FakeClock::UnixMillis() const {
  const auto passed = Now() - SteadyTime(std::chrono::hours(1000));
  return kStartUnixMillis + std::chrono::duration_cast<std::chrono::milliseconds>(passed).count();
}

void FakeClock::Advance(std::chrono::nanoseconds by) {
  std::lock_guard lock(mutex_);
  now_ += std::chrono::duration_cast<SteadyTime::duration>(by);
}

}  // namespace kiln
