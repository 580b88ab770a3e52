// How long a launch takes on the device, measured the way Triton's do_bench does it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"

namespace kiln::launch {

struct TimingOptions {
  double warmup_ms = 25;
  double repeat_ms = 100;
  // Overwritten before each run to empty the L2 cache: larger than the cache of any device.
  uint64_t flush_bytes = uint64_t{256} << 20;
};

// Percentiles of the runs that were measured.
struct RunTimes {
  double median_ms = 0;
  double low_ms = 0;   // 20th
  double high_ms = 0;  // 80th
  uint32_t runs = 0;
};

// The percentiles of `times`, interpolated. REQUIRES: `times` is not empty.
RunTimes Summarize(std::vector<float> times);

// Does one run and waits for it, which loads the kernel and shows whether it works; then five runs
// for an estimate; then runs for `warmup_ms`; then runs for `repeat_ms`, each between two events. A
// reset comes before each run. The flush buffer is overwritten before each run of the estimate and
// of the measurement, outside of the measured time.
//
// Everything runs on one stream, which must not capture, in the current context. Blocks for the
// whole time. Not thread-safe.
class RunTimer {
 public:
  // `flush`: `flush_bytes` of device memory.
  RunTimer(Driver& driver, Stream stream, const TimingOptions& options, Address flush)
      : driver_(driver), stream_(stream), options_(options), flush_(flush) {}

  // Both put work on the stream: `run` is measured, `reset` makes the next run equal to the first.
  // The first error of either ends the timing.
  using Step = std::function<Status()>;
  StatusOr<RunTimes> Time(const Step& reset, const Step& run);

 private:
  Status Prepare(const Step& reset);
  StatusOr<double> Estimate(const Step& reset, const Step& run);
  StatusOr<std::vector<float>> Measure(size_t runs, const Step& reset, const Step& run);

  Driver& driver_;
  const Stream stream_;
  const TimingOptions options_;
  const Address flush_;
};

}  // namespace kiln::launch
