// What a compile will take, learnt from those before it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "daemon/kernel/compile_job.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"

namespace kiln {

// Compiles are alike that have the same toolchain and backend, and sources of similar size, with
// their headers (within a factor of two). Of each such class a histogram is kept in which old
// compiles count less and less; the estimate is its 95th percentile, so that one kernel in twenty
// may take more than was kept free for it and none decides for all the others for long.
//
// A class with few compiles is taken to need at least the default. There are as many classes as
// toolchains here times their backends times a dozen sizes. Not thread-safe.
class MemoryEstimator {
 public:
  explicit MemoryEstimator(uint64_t default_bytes = limits::kCompileMemoryDefault)
      : default_bytes_(default_bytes) {}

  uint64_t BytesFor(const CompileJob& job) const;
  // 0 says that nobody measured, and teaches nothing.
  void Learn(const CompileJob& job, uint64_t peak_bytes);

 private:
  // Four to the octave from 1 MiB on: an estimate is at most 19 % over what was seen.
  static constexpr size_t kBuckets = 64;
  struct Histogram {
    std::array<float, kBuckets> weights{};
    uint64_t seen = 0;
  };
  using Class = std::tuple<Digest, std::string, int>;

  static Class ClassOf(const CompileJob& job);
  static uint64_t HighQuantile(const Histogram& histogram);

  const uint64_t default_bytes_;
  std::map<Class, Histogram> classes_;
};

}  // namespace kiln
