// Computes once what is the same for each launch of a kernel on a device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"
#include "client/launch/kiln_launch.h"

namespace kiln::launch {

// A launch as the caller describes it.
struct LaunchCall : kiln_launch_config {
  // One pointer to each value, in the order of the parameters, without the hidden ones.
  const void* const* arguments = nullptr;
  uint32_t argument_count = 0;

  bool IsEmpty() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
};

// The launch ABI of Triton's kernels, and of plain CUDA kernels. Immutable; thread-safe. Errors do
// not name the kernel.
class LaunchPlan {
 public:
  // FAILED_PRECONDITION: another architecture. RESOURCE_EXHAUSTED: more threads or shared memory
  // than the device has. UNIMPLEMENTED: unknown hidden pointers.
  // `metadata` must outlive the plan.
  static StatusOr<LaunchPlan> Make(const KernelMetadata& metadata, std::string_view driver_backend,
                                   const DeviceFacts& device);

  // Compares the driver's facts with the metadata. INVALID_ARGUMENT: another number or size of
  // parameters. RESOURCE_EXHAUSTED: too many threads for its registers.
  Status CheckFunction(const FunctionFacts& facts) const;

  // The dynamic shared memory to allow the function. 0: not necessary.
  int SharedBytesToAllow(const FunctionFacts& facts) const;
  // Whether to prefer shared memory to L1 cache, as Triton does.
  bool PrefersSharedMemory() const;
  bool NeedsLargeClusters() const;

  // INVALID_ARGUMENT: a wrong number or size of arguments; an impossible grid, block or amount of
  // shared memory.
  // REQUIRES: the call is not empty.
  StatusOr<DriverLaunch> Resolve(const LaunchCall& call) const;

  // Resolve for nearly all calls, with as little code as possible. False: ask Resolve.
  bool ResolvePlain(const LaunchCall& call, DriverLaunch& launch) const {
    if (call.argument_count != plain_.argument_count || call.argument_bytes != nullptr ||
        (call.pdl | call.cooperative) != 0) {
      return false;
    }
    for (size_t axis = 0; axis < 3; ++axis) {
      if (call.grid[axis] - 1 >= plain_.grid_max[axis]) return false;  // 0, or too many
    }
    launch.grid = std::to_array(call.grid);
    uint64_t threads = plain_.threads;
    launch.block = {plain_.threads, 1, 1};
    if ((call.block[0] | call.block[1] | call.block[2]) != 0) {
      const std::array<uint32_t, 3> block = std::to_array(call.block);
      if (!plain_.takes_block && block != launch.block) return false;
      launch.block = block;
      threads = uint64_t{call.block[0]} * call.block[1] * call.block[2];
    }
    const uint64_t shared_bytes = uint64_t{plain_.shared_bytes} + call.dynamic_shared_bytes;
    if (threads - 1 >= plain_.threads_max || shared_bytes > plain_.shared_bytes_max) return false;
    launch.dynamic_shared_bytes = static_cast<uint32_t>(shared_bytes);
    launch.stream = call.stream;
    return true;
  }
  size_t hidden_pointers() const { return plain_.hidden_pointers; }
  // The device's number.
  int device() const { return device_.ordinal; }

  bool NeedsScratch() const {
    return metadata_.global_scratch_bytes != 0 || metadata_.profile_scratch_bytes != 0;
  }
  // For the whole grid: `bytes_each` for a program.
  uint64_t ScratchBytes(const LaunchCall& call, int64_t bytes_each) const;

 private:
  // The fields that each launch reads, in one place.
  struct Plain {
    uint32_t argument_count = kNever;
    uint32_t hidden_pointers = 0;
    std::array<uint32_t, 3> grid_max = {};
    uint32_t threads = 0;  // of a block, if the call does not say
    uint32_t threads_max = 0;
    uint32_t shared_bytes = 0;  // the kernel's own dynamic shared memory
    uint32_t shared_bytes_max = 0;
    bool takes_block = false;
  };
  // A number of arguments that no call has.
  static constexpr uint32_t kNever = UINT32_MAX;

  LaunchPlan(const KernelMetadata& metadata, const DeviceFacts& device)
      : metadata_(metadata), device_(device) {}

  void FillPlain();

  Status CheckLimits() const;
  Status CheckArguments(const LaunchCall& call) const;
  Status ResolveGrid(const LaunchCall& call, DriverLaunch& launch) const;
  Status ResolveBlock(const LaunchCall& call, DriverLaunch& launch) const;
  Status ResolveSharedBytes(const LaunchCall& call, DriverLaunch& launch) const;

  Plain plain_;
  const KernelMetadata& metadata_;
  DeviceFacts device_;
  std::vector<size_t> parameter_bytes_;  // 0: not known
};

}  // namespace kiln::launch
