// Which kernels are loaded.
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

// Those of all contexts, each of which goes its own way: see ContextKernels, also for what is not
// said here.
//
// Thread-safe. Blocks as the driver does, and for no context but the kernel's; Trim does for each.
class ResidentKernels {
 public:
  explicit ResidentKernels(Driver& driver) : driver_(driver) {}

  // The kernel of the artifact in the current context.
  StatusOr<std::shared_ptr<Kernel>> Open(std::shared_ptr<const Artifact> artifact);
  void Close(Kernel& kernel) { kernel.home().Close(kernel); }

  StatusOr<Kernel::Use> Load(Kernel& kernel, bool is_capturing) {
    return kernel.home().Load(kernel, is_capturing);
  }
  Kernel::Use Find(Kernel& kernel) { return kernel.home().Find(kernel); }
  // One context after the other.
  void Trim();
  void SetLimits(const ResidencyLimits& limits);

  StatusOr<FunctionFacts> FactsOf(Kernel& kernel) { return kernel.home().FactsOf(kernel); }
  uint64_t NextTick() { return tick_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Of all contexts together.
  ResidencyStats Stats() const;

 private:
  ContextKernels& KernelsOf(uint64_t context_id, Context context);

  Driver& driver_;
  std::atomic<uint64_t> tick_{0};
  // Taken before those of a ContextKernels that are held for moments, and never for longer.
  mutable std::mutex mutex_;
  // By the contexts' ids. They stay, also when their context is gone: there are few.
  std::map<uint64_t, ContextKernels> contexts_;
  ResidencyLimits limits_;
};

}  // namespace kiln::launch
