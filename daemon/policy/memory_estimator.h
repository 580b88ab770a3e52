// Estimates the memory of a compile from earlier compiles.
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

// Compiles of one class have the same toolchain and backend, and sources with headers of similar
// size (within a factor of two). Each class has a histogram in which old compiles count less and
// less. The estimate is its 95th percentile: one kernel in twenty may take more than was kept free
// for it, and no single kernel decides for the others for long.
//
// A class with few compiles counts as at least the default. There are about a dozen classes for
// each backend of a toolchain. Not thread-safe.
class MemoryEstimator {
 public:
  explicit MemoryEstimator(uint64_t default_bytes = limits::kCompileMemoryDefault)
      : default_bytes_(default_bytes) {}

  uint64_t BytesFor(const CompileJob& job) const;
  // Ignores a peak of 0, which means that nobody measured it.
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
