// How much memory this process holds.
#pragma once

#include <cstdint>

#include "storage/base/unique_fd.h"

namespace kiln {

// Opens what it needs at once: a jailed process opens nothing of /proc. Not thread-safe.
class MemoryUse {
 public:
  MemoryUse();

  uint64_t ResidentBytes() const;

  // Forgets the peak so far.
  void ResetPeak();
  // The most that was held at a time since then, beyond what was held when this object was made: a
  // worker that was just forked shares that with its zygote. 0 where the kernel does not tell, and
  // where it does not forget.
  uint64_t PeakBytes() const;

 private:
  const UniqueFd resident_;
  const UniqueFd status_;
  UniqueFd reset_;
  const uint64_t baseline_bytes_;
};

}  // namespace kiln
