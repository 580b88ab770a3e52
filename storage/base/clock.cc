#include "storage/base/clock.h"

namespace kiln {
namespace {

class OperatingSystemClock final : public Clock {
 public:
  SteadyTime Now() const override { return std::chrono::steady_clock::now(); }
  int64_t UnixMillis() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& SystemClock() {
  static const OperatingSystemClock* const clock = new OperatingSystemClock;
  return *clock;
}

}  // namespace kiln
