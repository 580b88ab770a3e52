// How a kernel is launched on a device: what is the same each time, worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "client/launch/driver.h"
#include "client/launch/metadata.h"
#include "client/launch/status.h"

namespace kiln::launch {

// A launch as the caller says it.
struct LaunchCall {
  // As Triton counts it, which is clusters; of plain kernels blocks. A zero: nothing is launched.
  std::array<uint32_t, 3> grid = {1, 1, 1};
  // Threads. Zeroes: as the kernel was compiled.
  std::array<uint32_t, 3> block = {0, 0, 0};
  // Besides what the kernel itself asks for.
  uint32_t dynamic_shared_bytes = 0;
  Stream stream = nullptr;
  bool pdl = false;          // also where the kernel does not ask for it
  bool cooperative = false;  // likewise
  // One pointer to each value, in the order of the parameters, without the hidden ones.
  const void* const* arguments = nullptr;
  uint32_t argument_count = 0;
  // Their sizes, to be checked. Null: they are not.
  const uint32_t* argument_bytes = nullptr;

  bool IsEmpty() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
};

// The launch ABI of Triton's kernels, and CUDA's own for plain ones. Immutable; thread-safe. Errors
// lack the kernel's label.
class LaunchPlan {
 public:
  // FAILED_PRECONDITION: another architecture. RESOURCE_EXHAUSTED: more threads or shared memory
  // than the device has. UNIMPLEMENTED: hidden pointers that nobody here knows.
  // `metadata` must outlive the plan.
  static StatusOr<LaunchPlan> Make(const KernelMetadata& metadata, std::string_view driver_backend,
                                   const DeviceFacts& device);

  // What the driver has found in the binary must fit the metadata. INVALID_ARGUMENT: another
  // number or another size of parameters. RESOURCE_EXHAUSTED: too many threads for its registers.
  Status CheckFunction(const FunctionFacts& facts) const;

  // What a block may have of dynamic shared memory once the function is allowed to. 0: no need.
  int SharedBytesToAllow(const FunctionFacts& facts) const;
  // Whether L1 cache is to make room for it, as Triton has it.
  bool PrefersSharedMemory() const;
  bool NeedsLargeClusters() const;

  // INVALID_ARGUMENT: a wrong number or size of arguments; a grid, a block or so much shared memory
  // that is not possible.
  // REQUIRES: the call is not empty.
  StatusOr<DriverLaunch> Resolve(const LaunchCall& call) const;

  bool NeedsScratch() const {
    return metadata_.global_scratch_bytes != 0 || metadata_.profile_scratch_bytes != 0;
  }
  // What the whole grid needs. 0: none.
  uint64_t GlobalScratchBytes(const LaunchCall& call) const {
    return ScratchBytes(call, metadata_.global_scratch_bytes);
  }
  uint64_t ProfileScratchBytes(const LaunchCall& call) const {
    return ScratchBytes(call, metadata_.profile_scratch_bytes);
  }

 private:
  LaunchPlan(const KernelMetadata& metadata, const DeviceFacts& device)
      : metadata_(metadata), device_(device) {}

  Status CheckLimits() const;
  Status CheckArguments(const LaunchCall& call) const;
  Status ResolveGrid(const LaunchCall& call, DriverLaunch& launch) const;
  Status ResolveBlock(const LaunchCall& call, DriverLaunch& launch) const;
  Status ResolveSharedBytes(const LaunchCall& call, DriverLaunch& launch) const;
  uint64_t ScratchBytes(const LaunchCall& call, int64_t bytes_each) const;

  const KernelMetadata& metadata_;
  DeviceFacts device_;
  std::vector<size_t> parameter_bytes_;  // 0: not known
};

}  // namespace kiln::launch
