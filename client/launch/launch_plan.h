// How a kernel is launched on a device: what is the same each time, worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"

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

  // As Resolve, for the calls that nearly all are, in as little code as possible. False: it is
  // another one, or not possible; Resolve tells.
  bool ResolvePlain(const LaunchCall& call, DriverLaunch& launch) const {
    if (call.argument_count != plain_.argument_count || call.argument_bytes != nullptr ||
        call.pdl || call.cooperative) {
      return false;
    }
    for (size_t axis = 0; axis < 3; ++axis) {
      if (call.grid[axis] - 1 >= plain_.grid_max[axis]) return false;  // of 0 and too many
    }
    launch.grid = call.grid;
    uint64_t threads = plain_.threads;
    launch.block = {plain_.threads, 1, 1};
    if ((call.block[0] | call.block[1] | call.block[2]) != 0) {
      if (!plain_.takes_block && call.block != launch.block) return false;
      launch.block = call.block;
      threads = uint64_t{call.block[0]} * call.block[1] * call.block[2];
    }
    const uint64_t shared_bytes = uint64_t{plain_.shared_bytes} + call.dynamic_shared_bytes;
    if (threads - 1 >= plain_.threads_max || shared_bytes > plain_.shared_bytes_max) return false;
    launch.dynamic_shared_bytes = static_cast<uint32_t>(shared_bytes);
    launch.stream = call.stream;
    return true;
  }
  size_t hidden_pointers() const { return plain_.hidden_pointers; }
  // Its number.
  int device() const { return device_.ordinal; }

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
  // What a launch reads again and again, together.
  struct Plain {
    uint32_t argument_count = kNever;
    uint32_t hidden_pointers = 0;
    std::array<uint32_t, 3> grid_max = {};
    uint32_t threads = 0;  // of a block, where the call does not say
    uint32_t threads_max = 0;
    uint32_t shared_bytes = 0;  // dynamic ones of its own
    uint32_t shared_bytes_max = 0;
    bool takes_block = false;
  };
  // Arguments that no call has.
  static constexpr uint32_t kNever = UINT32_MAX;

  LaunchPlan(const KernelMetadata& metadata, const DeviceFacts& device)
      : metadata_(metadata), device_(device) {}

  void FillPlain();

  Status CheckLimits() const;
  Status CheckArguments(const LaunchCall& call) const;
  Status ResolveGrid(const LaunchCall& call, DriverLaunch& launch) const;
  Status ResolveBlock(const LaunchCall& call, DriverLaunch& launch) const;
  Status ResolveSharedBytes(const LaunchCall& call, DriverLaunch& launch) const;
  uint64_t ScratchBytes(const LaunchCall& call, int64_t bytes_each) const;

  Plain plain_;
  const KernelMetadata& metadata_;
  DeviceFacts device_;
  std::vector<size_t> parameter_bytes_;  // 0: not known
};

}  // namespace kiln::launch
