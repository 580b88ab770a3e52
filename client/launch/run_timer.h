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
  // Written before each run, so that nothing of it is in the L2 cache: more than any device's.
  uint64_t flush_bytes = uint64_t{256} << 20;
};

// Percentiles of the runs that were measured.
struct RunTimes {
  double median_ms = 0;
  double low_ms = 0;   // 20th
  double high_ms = 0;  // 80th
  uint32_t runs = 0;
};

// The percentiles of `times`, between the values where they fall between two.
// REQUIRES: there is one.
RunTimes Summarize(std::vector<float> times);

// One run that is waited for, which loads what it needs and shows whether it works; five more for
// an estimate; as many as fill `warmup_ms`; then as many as fill `repeat_ms`, each between two
// events of its own. Each comes after a reset; before each run of the estimate and of the last
// kind, outside of what those measure, the flush buffer is overwritten too.
//
// Everything goes over one stream, which must not capture, in the current context. Blocks for as
// long as the runs take. Not thread-safe.
class RunTimer {
 public:
  // `flush`: `flush_bytes` of device memory.
  RunTimer(Driver& driver, Stream stream, const TimingOptions& options, Address flush)
      : driver_(driver), stream_(stream), options_(options), flush_(flush) {}

  // Both put work on the stream: `reset` what makes the next run like the first one, `run` what is
  // measured. The first error of either ends it.
  using Step = std::function<Status()>;
  StatusOr<RunTimes> Time(const Step& reset, const Step& run);

 private:
  Status RunOnce(const Step& reset, const Step& run);
  Status Prepare(const Step& reset);
  StatusOr<double> Estimate(const Step& reset, const Step& run);
  StatusOr<std::vector<float>> Measure(size_t runs, const Step& reset, const Step& run);

  Driver& driver_;
  const Stream stream_;
  const TimingOptions options_;
  const Address flush_;
};

}  // namespace kiln::launch
