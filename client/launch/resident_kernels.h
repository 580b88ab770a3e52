// The loaded kernels of all contexts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "client/launch/context_kernels.h"
#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"

namespace kiln::launch {

// Has one ContextKernels for each context; see there.
//
// Thread-safe. Blocks as the driver does, only for the kernel's context; Trim for each context.
class ResidentKernels {
 public:
  explicit ResidentKernels(Driver& driver) : driver_(driver) {}

  // The kernel of the artifact in the current context.
  StatusOr<std::shared_ptr<Kernel>> Open(std::shared_ptr<const Artifact> artifact);
  // One context after the other.
  void Trim();
  void SetLimits(const ResidencyLimits& limits);

  uint64_t NextTick() { return tick_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void AddTo(kiln_launch_stats& sum) const;

 private:
  ContextKernels& KernelsOf(uint64_t context_id, Context context);

  Driver& driver_;
  std::atomic<uint64_t> tick_{0};
  // Taken before a ContextKernels' mutex_. Held briefly.
  mutable std::mutex mutex_;
  // By the contexts' ids. Never removed: contexts are few.
  std::map<uint64_t, ContextKernels> contexts_;
  ResidencyLimits limits_;
};

}  // namespace kiln::launch
