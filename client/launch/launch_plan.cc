#include "client/launch/launch_plan.h"

#include <algorithm>

#include "client/launch/architecture.h"
#include "client/launch/argument_list.h"
#include "client/launch/artifact/parameter_type.h"

namespace kiln::launch {
namespace {

// Shared memory of a block that does not opt in to more.
constexpr int64_t kSharedBytesDefault = 48 * 1024;
// Blackwell's tensor memory.
constexpr int64_t kTensorMemoryColumnsMax = 512;
// Global scratch, profile scratch.
constexpr int64_t kHiddenPointersKnown = 2;
// Not every device supports larger clusters.
constexpr int64_t kPortableClusterMax = 8;
constexpr uint64_t kAllBytes = uint64_t{1} << 60;

std::string Describe(const uint32_t (&lengths)[3]) {
  return fmt::format("{}x{}x{}", lengths[0], lengths[1], lengths[2]);
}

std::string NameOf(const Parameter& parameter, size_t index) {
  return parameter.name.empty() ? fmt::format("{} ({})", index, parameter.type)
                                : fmt::format("{} ({}: {})", index, parameter.name, parameter.type);
}

// FAILED_PRECONDITION: the kernel does not run on the device; the message names both architectures.
Status CheckArchitecture(const KernelMetadata& kernel, std::string_view driver_backend,
                         const DeviceFacts& device) {
  if (driver_backend == "spirv" && device.architecture.empty()) {
    return FailedPrecondition(
        "device {} ({}) takes no SPIR-V: its OpenCL driver compiles source only", device.ordinal,
        device.name);
  }
  if (kernel.backend == driver_backend &&
      Runs(kernel.backend, kernel.architecture, kernel.IsTriton(), device.architecture)) {
    return Status();
  }
  return FailedPrecondition(
      "compiled for {}:{}, but device {} ({}) is {}:{}: have it compiled for that target",
      kernel.backend, kernel.architecture, device.ordinal, device.name, driver_backend,
      device.architecture);
}

}  // namespace

StatusOr<LaunchPlan> LaunchPlan::Make(const KernelMetadata& metadata,
                                      std::string_view driver_backend, const DeviceFacts& device) {
  LAUNCH_RETURN_IF_ERROR(CheckArchitecture(metadata, driver_backend, device));
  LaunchPlan plan(metadata, device);
  LAUNCH_RETURN_IF_ERROR(plan.CheckLimits());
  for (const Parameter& parameter : metadata.parameters) {
    plan.parameter_bytes_.push_back(BytesOfType(parameter.type));
  }
  plan.FillPlain();
  return plan;
}

void LaunchPlan::FillPlain() {
  plain_.hidden_pointers = static_cast<uint32_t>(metadata_.hidden_pointers);
  const size_t arguments = parameter_bytes_.size();
  const bool is_triton = metadata_.IsTriton();
  if (NeedsScratch() || (is_triton && metadata_.num_ctas > 1) || metadata_.launch_pdl ||
      metadata_.launch_cooperative_grid ||
      arguments + plain_.hidden_pointers > ArgumentList::kInlineMax) {
    return;
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    plain_.grid_max[axis] = static_cast<uint32_t>(device_.grid_max[axis]);
  }
  plain_.threads = static_cast<uint32_t>(metadata_.num_warps * metadata_.warp_size);
  plain_.threads_max = static_cast<uint32_t>(device_.threads_max);
  // A plain kernel's own shared memory is static: the driver adds it.
  plain_.shared_bytes = is_triton ? static_cast<uint32_t>(metadata_.shared_bytes) : 0;
  plain_.shared_bytes_max =
      static_cast<uint32_t>(device_.shared_bytes_max - (is_triton ? 0 : metadata_.shared_bytes));
  plain_.takes_block = !is_triton;
  plain_.argument_count = static_cast<uint32_t>(arguments);
}

Status LaunchPlan::CheckLimits() const {
  if (metadata_.hidden_pointers > kHiddenPointersKnown) {
    return Unimplemented(
        "it takes {} hidden pointers, this library knows of {}: was it compiled "
        "with an instrumentation?",
        metadata_.hidden_pointers, kHiddenPointersKnown);
  }
  if (metadata_.shared_bytes > device_.shared_bytes_max) {
    return ResourceExhausted(
        "it needs {} bytes of shared memory, {} has {} for a block: use "
        "smaller tiles or fewer stages",
        metadata_.shared_bytes, device_.name, device_.shared_bytes_max);
  }
  if (metadata_.num_warps * metadata_.warp_size > device_.threads_max) {
    return ResourceExhausted("its {} warps are {} threads, {} has {} for a block: use fewer warps",
                             metadata_.num_warps, metadata_.num_warps * metadata_.warp_size,
                             device_.name, device_.threads_max);
  }
  if (metadata_.tensor_memory_columns > kTensorMemoryColumnsMax) {
    return ResourceExhausted(
        "it needs {} columns of tensor memory, there are {}: use smaller tiles",
        metadata_.tensor_memory_columns, kTensorMemoryColumnsMax);
  }
  return Status();
}

Status LaunchPlan::CheckFunction(const FunctionFacts& facts) const {
  const int64_t threads = metadata_.num_warps * metadata_.warp_size;
  if (facts.threads_max > 0 && threads > facts.threads_max) {
    return ResourceExhausted(
        "its {} registers a thread leave room for {} threads in a block, it "
        "needs {}: use fewer warps or a register limit",
        facts.registers, facts.threads_max, threads);
  }
  if (!facts.parameter_bytes) return Status();
  const auto hidden = static_cast<size_t>(metadata_.hidden_pointers);
  const size_t expected = parameter_bytes_.size() + hidden;
  if (facts.parameter_bytes->size() != expected) {
    return InvalidArgument(
        "the binary takes {} parameters, the metadata says {} and {} hidden: "
        "they do not belong together",
        facts.parameter_bytes->size(), parameter_bytes_.size(), hidden);
  }
  for (size_t i = 0; i < parameter_bytes_.size(); ++i) {
    const size_t found = (*facts.parameter_bytes)[i];
    if (parameter_bytes_[i] == 0 || found == 0 || parameter_bytes_[i] == found) continue;
    return InvalidArgument(
        "parameter {} has {} bytes by its type, {} in the binary: they do not "
        "belong together",
        NameOf(metadata_.parameters[i], i), parameter_bytes_[i], found);
  }
  return Status();
}

int LaunchPlan::SharedBytesToAllow(const FunctionFacts& facts) const {
  // As much as the device has: only a launch says how much it needs, and the allowance is free.
  if (device_.shared_bytes_max <= kSharedBytesDefault) return 0;
  return static_cast<int>(device_.shared_bytes_max) - facts.static_shared_bytes;
}

bool LaunchPlan::PrefersSharedMemory() const {
  return metadata_.IsTriton() && metadata_.shared_bytes > kSharedBytesDefault;
}

bool LaunchPlan::NeedsLargeClusters() const { return metadata_.num_ctas > kPortableClusterMax; }

Status LaunchPlan::CheckArguments(const LaunchCall& call) const {
  if (call.argument_count != parameter_bytes_.size()) {
    return InvalidArgument("{} arguments, it takes {} (hidden ones are added here)",
                           call.argument_count, parameter_bytes_.size());
  }
  if (call.argument_bytes == nullptr) return Status();
  for (size_t i = 0; i < parameter_bytes_.size(); ++i) {
    if (parameter_bytes_[i] == 0 || call.argument_bytes[i] == parameter_bytes_[i]) continue;
    return InvalidArgument("argument {} has {} bytes, should have {}",
                           NameOf(metadata_.parameters[i], i), call.argument_bytes[i],
                           parameter_bytes_[i]);
  }
  return Status();
}

Status LaunchPlan::ResolveGrid(const LaunchCall& call, DriverLaunch& launch) const {
  const bool has_cluster = metadata_.IsTriton() && metadata_.num_ctas > 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto ctas = has_cluster ? static_cast<uint64_t>(metadata_.cluster_dims[axis]) : 1;
    const uint64_t blocks = call.grid[axis] * ctas;
    if (blocks > static_cast<uint64_t>(device_.grid_max[axis])) {
      return InvalidArgument("a grid of {} has {} blocks along {}, {} takes {}",
                             Describe(call.grid), blocks, "xyz"[axis], device_.name,
                             device_.grid_max[axis]);
    }
    launch.grid[axis] = static_cast<uint32_t>(blocks);
    if (has_cluster) launch.cluster[axis] = static_cast<uint32_t>(ctas);
  }
  return Status();
}

Status LaunchPlan::ResolveBlock(const LaunchCall& call, DriverLaunch& launch) const {
  const auto compiled = static_cast<uint32_t>(metadata_.num_warps * metadata_.warp_size);
  if ((call.block[0] | call.block[1] | call.block[2]) == 0) {
    if (compiled == 0) return InvalidArgument("it does not say its block, so the launch must");
    launch.block = {compiled, 1, 1};
    return Status();
  }
  const uint64_t threads = uint64_t{call.block[0]} * call.block[1] * call.block[2];
  if (metadata_.IsTriton() &&
      std::to_array(call.block) != std::array<uint32_t, 3>{compiled, 1, 1}) {
    return InvalidArgument("a block of {}, it was compiled for {}x1x1", Describe(call.block),
                           compiled);
  }
  if (threads == 0 || threads > static_cast<uint64_t>(device_.threads_max)) {
    return InvalidArgument("a block of {} has {} threads, {} takes 1 to {}", Describe(call.block),
                           threads, device_.name, device_.threads_max);
  }
  launch.block = std::to_array(call.block);
  return Status();
}

Status LaunchPlan::ResolveSharedBytes(const LaunchCall& call, DriverLaunch& launch) const {
  const int64_t bytes = metadata_.shared_bytes + call.dynamic_shared_bytes;
  if (bytes > device_.shared_bytes_max) {
    return InvalidArgument("{} bytes of shared memory besides its own {}, {} has {} for a block",
                           call.dynamic_shared_bytes, metadata_.shared_bytes, device_.name,
                           device_.shared_bytes_max);
  }
  // A plain kernel's own shared memory is static: the driver adds it.
  launch.dynamic_shared_bytes =
      metadata_.IsTriton() ? static_cast<uint32_t>(bytes) : call.dynamic_shared_bytes;
  return Status();
}

StatusOr<DriverLaunch> LaunchPlan::Resolve(const LaunchCall& call) const {
  LAUNCH_RETURN_IF_ERROR(CheckArguments(call));
  DriverLaunch launch;
  LAUNCH_RETURN_IF_ERROR(ResolveGrid(call, launch));
  LAUNCH_RETURN_IF_ERROR(ResolveBlock(call, launch));
  LAUNCH_RETURN_IF_ERROR(ResolveSharedBytes(call, launch));
  launch.stream = call.stream;
  launch.pdl = call.pdl != 0 || metadata_.launch_pdl;
  launch.cooperative = call.cooperative != 0 || metadata_.launch_cooperative_grid;
  return launch;
}

uint64_t LaunchPlan::ScratchBytes(const LaunchCall& call, int64_t bytes_each) const {
  if (bytes_each == 0) return 0;
  uint64_t bytes = static_cast<uint64_t>(bytes_each);
  for (const uint64_t factor :
       {uint64_t{call.grid[0]}, uint64_t{call.grid[1]}, uint64_t{call.grid[2]},
        static_cast<uint64_t>(metadata_.num_ctas)}) {
    // More than any device has; its allocator will say so.
    if (__builtin_mul_overflow(bytes, factor, &bytes)) return kAllBytes;
  }
  return bytes;
}

}  // namespace kiln::launch
