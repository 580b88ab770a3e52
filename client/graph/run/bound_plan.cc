#include "client/graph/run/bound_plan.h"

#include <absl/strings/cord.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <utility>

#include "client/graph/run/refused.h"
#include "client/graph/run/symbol_ranges.h"

namespace kiln::graph {
namespace {

constexpr char kOfTheDriver[] = "kiln.graph/driver";

absl::Status FromLaunch(kiln_launch_code code) {
  if (code == KILN_LAUNCH_OK) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(code), kiln_launch_error());
  if (kiln_launch_driver_result() != 0) status.SetPayload(kOfTheDriver, absl::Cord("1"));
  return status;
}

// Each bound plan has room for 2^32 marks.
uint64_t NewMarks() {
  static std::atomic<uint64_t> plans = 0;
  return (plans.fetch_add(1, std::memory_order_relaxed) + 1) << 32;
}

// Whether another compiler's kernel may load where this one does not. None does without a driver, a
// context or memory, on another architecture, or where the driver is out of order.
bool IsOfTheKernel(const absl::Status& status) {
  if (absl::IsNotFound(status) || absl::IsUnimplemented(status) || absl::IsDataLoss(status)) {
    return true;
  }
  const bool is_decision = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
  return is_decision && !status.GetPayload(kOfTheDriver).has_value();
}

bool HasDevice(kiln_launch_runtime* runtime, int device) {
  kiln_launch_device facts{};
  facts.size = sizeof facts;
  return kiln_launch_get_device(runtime, device, &facts) == KILN_LAUNCH_OK;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BoundPlan>> BoundPlan::Make(const KernelPlan& plan,
                                                           kiln_launch_runtime* runtime,
                                                           int device) {
  auto layout = MemoryLayout::Make(plan);
  if (!layout.ok()) return layout.status();
  return std::unique_ptr<BoundPlan>(new BoundPlan(plan, *std::move(layout), runtime, device));
}

BoundPlan::BoundPlan(const KernelPlan& plan, MemoryLayout layout, kiln_launch_runtime* runtime,
                     int device)
    : symbols_(plan.segment().symbols),
      layout_(std::move(layout)),
      first_mark_(NewMarks()),
      ticket_(std::random_device()()),
      runtime_(runtime),
      device_(device) {
  for (const PlanBuffer& buffer : layout_.buffers()) {
    const auto number = static_cast<int>(names_.size());
    names_.push_back(plan.segment().values[static_cast<size_t>(buffer.value)].name);
    if (!buffer.is_external) continue;
    external_.push_back({number, buffer.is_written ? written_.size() : SIZE_MAX});
    if (buffer.is_written) written_.push_back(number);
  }
  for (const PlannedKernel& planned : plan.kernels()) {
    BoundKernel& kernel = kernels_.emplace_back();
    kernel.entry = planned.kernel.entry;
    kernel.is_variant = !planned.split.empty();
    kernel.is_dropped = planned.is_dropped;
    if (kernel.is_variant) kernel.parts = planned.program.symbols;
    kernel.grid = planned.kernel.grid;
    kernel.stages = planned.kernel.stages;
    // Triton decides about threads when it compiles.
    if (planned.kernel.language != Language::kTritonIr) {
      kernel.threads = static_cast<uint32_t>(planned.kernel.threads);
    }
    for (const int value : planned.buffers) kernel.buffers.push_back(layout_.BufferOf(value));
  }
  for (const KernelStep& step : plan.steps()) {
    const auto first = static_cast<size_t>(step.first_kernel);
    steps_.push_back({step.is_engines, first, first + static_cast<size_t>(step.kernels)});
  }
  while (first_own_step_ < steps_.size() && steps_[first_own_step_].is_engines) ++first_own_step_;
}

absl::Status BoundPlan::CheckIsOurs(size_t kernel) const {
  if (kernel >= kernels_.size()) {
    return Refused("there are {} kernels, there is no number {}", kernels_.size(), kernel);
  }
  for (const BoundStep& step : steps_) {
    if (kernels_[kernel].is_dropped) break;
    if (kernel >= step.first_kernel && kernel < step.end_kernel) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("kernel {} ({}): its step is the engine's", kernel, kernels_[kernel].entry));
}

absl::Status BoundPlan::Keep(size_t kernel, kiln_launch_code code, kiln_launch_kernel* opened) {
  absl::Status status = FromLaunch(code);
  const bool is_of_the_kernel = IsOfTheKernel(status) && HasDevice(runtime_, device_);
  kernels_[kernel].load_failure = is_of_the_kernel ? status : absl::OkStatus();
  if (!status.ok()) return status;
  kernels_[kernel].kernel.reset(opened);
  ++sets_;
  kernels_[kernel].mark = KernelsMark();
  return absl::OkStatus();
}

absl::Status BoundPlan::SetResponse(size_t kernel, std::string_view response) {
  if (absl::Status status = CheckIsOurs(kernel); !status.ok()) return status;
  kiln_launch_kernel* opened = nullptr;
  const kiln_launch_code code = kiln_launch_kernel_open_response(runtime_, response.data(),
                                                                 response.size(), device_, &opened);
  return Keep(kernel, code, opened);
}

absl::Status BoundPlan::SetArtifact(size_t kernel, kiln_launch_artifact* artifact) {
  if (absl::Status status = CheckIsOurs(kernel); !status.ok()) return status;
  kiln_launch_kernel* opened = nullptr;
  const kiln_launch_code code = kiln_launch_kernel_open(runtime_, artifact, device_, &opened);
  return Keep(kernel, code, opened);
}

absl::Status BoundPlan::CheckIsSet(size_t kernel) const {
  if (kernels_[kernel].kernel != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("kernel {} ({}) has no artifact", kernel, kernels_[kernel].entry));
}

absl::StatusOr<kiln_launch_kernel*> BoundPlan::KernelAt(size_t number) const {
  absl::Status status = CheckIsOurs(number);
  if (status.ok()) status = CheckIsSet(number);
  if (!status.ok()) return status;
  return kernels_[number].kernel.get();
}

absl::Status BoundPlan::Prepare() {
  explanation_.clear();
  absl::Status first;
  for (const BoundStep& step : steps_) {
    for (size_t i = step.first_kernel; i < step.end_kernel; ++i) {
      BoundKernel& kernel = kernels_[i];
      if (kernel.kernel == nullptr && kernel.load_failure.ok() && !kernel.is_variant) {
        return CheckIsSet(i);
      }
      absl::Status status = kernel.kernel == nullptr ? kernel.load_failure : Load(kernel);
      if (!status.ok() && !IsOfTheKernel(status)) return status;
      first.Update(std::move(status));
    }
  }
  return first;
}

absl::Status BoundPlan::Load(BoundKernel& kernel) {
  absl::Status status = FromLaunch(kiln_launch_prepare(kernel.kernel.get()));
  if (status.ok() && !kernel.stages.empty()) status = AskForRoom(kernel);
  kernel.load_failure = IsOfTheKernel(status) ? status : absl::OkStatus();
  return status;
}

std::vector<BoundPlan::LoadFailure> BoundPlan::LoadFailures() const {
  std::vector<LoadFailure> failures;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (!kernels_[i].load_failure.ok()) failures.push_back({i, kernels_[i].load_failure});
  }
  return failures;
}

absl::Status BoundPlan::AskForRoom(BoundKernel& kernel) {
  kernel.resident_blocks = 0;
  const absl::Status status = FromLaunch(kiln_launch_kernel_get_resident_blocks(
      kernel.kernel.get(), kernel.threads, /*dynamic_shared_bytes=*/0, &kernel.resident_blocks));
  // FAILED_PRECONDITION: another plan has just taken the kernel's place on the device.
  if (!status.ok() && !absl::IsUnimplemented(status) && !absl::IsFailedPrecondition(status)) {
    return status;
  }
  explanation_ += fmt::format("kernel {}: ", kernel.entry);
  if (kernel.resident_blocks > 0) {
    explanation_ += fmt::format("one launch of at most {} blocks\n", kernel.resident_blocks);
    return absl::OkStatus();
  }
  explanation_ += fmt::format(
      "a launch for each of its {} stages: {}\n", kernel.stages.size(),
      status.ok() ? "the device has no room for one of its blocks" : std::string(status.message()));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> BoundPlan::WorkspaceBytes(std::span<const int64_t> symbols) const {
  if (absl::Status status = CheckSymbols(symbols_, symbols); !status.ok()) {
    if (observed_ != nullptr) observed_->Add(symbols);  // there will be no execution
    return status;
  }
  uint64_t offsets[kSlotsMax];
  const auto bytes = layout_.PlaceSlots(symbols, offsets);
  if (!bytes) return Refused("the size of the workspace overflows");
  return *bytes;
}

absl::StatusOr<uint64_t> BoundPlan::BufferBytes(size_t buffer,
                                                std::span<const int64_t> symbols) const {
  if (absl::Status status = CheckSymbols(symbols_, symbols); !status.ok()) return status;
  if (buffer >= names_.size()) {
    return Refused("there are {} buffers, there is no number {}", names_.size(), buffer);
  }
  const auto bytes = MemoryLayout::BytesOf(layout_.buffers()[buffer], symbols);
  if (!bytes) return Refused("the size of {} overflows", names_[buffer]);
  return *bytes;
}

std::string_view BoundPlan::NameOf(int buffer) const { return names_[static_cast<size_t>(buffer)]; }

absl::StatusOr<std::vector<ObservedSymbol>> BoundPlan::Observed() const {
  if (observed_ != nullptr) return observed_->Get();
  return absl::FailedPreconditionError("shapes are not observed: ask for it before executions");
}

absl::Status BoundPlan::Execute(const Execution& execution, size_t& next_step) const {
  if (observed_ != nullptr && execution.first_step == first_own_step_) {
    observed_->Add(execution.symbols);
  }
  if (absl::Status status = CheckSizes(execution); !status.ok()) return status;
  const size_t end = EndOf(execution);
  size_t step = execution.first_step;
  while (step < end && !steps_[step].is_engines) ++step;
  if (step == execution.first_step) {
    next_step = step;
    return absl::OkStatus();
  }
  const std::span steps(steps_.begin() + static_cast<long>(execution.first_step),
                        steps_.begin() + static_cast<long>(step));
  for (const BoundStep& each : steps) {
    if (absl::Status status = CheckStep(each, execution); !status.ok()) return status;
  }
  uint64_t offsets[kSlotsMax];
  absl::Status status = CheckWorkspace(layout_.PlaceSlots(execution.symbols, offsets), execution);
  if (status.ok()) status = CheckOverlaps(execution);
  for (size_t i = 0; status.ok() && i < steps.size(); ++i) {
    status = ForEachLaunch(steps[i], execution.symbols, [&](size_t kernel) {
      return Launch(kernels_[kernel], offsets, execution);
    });
  }
  if (status.ok()) next_step = step;
  return status;
}

absl::Status BoundPlan::Launch(const BoundKernel& kernel, const uint64_t* offsets,
                               const Execution& execution) const {
  kiln_launch_config config{};
  config.size = sizeof config;
  config.stream = execution.stream;
  const absl::Status status = GridAt(kernel, execution.symbols, config.grid);
  if (!status.ok() || config.grid[0] == 0) return status;
  if (kernel.threads != 0) {
    config.block[0] = kernel.threads;
    config.block[1] = config.block[2] = 1;
  }
  uint64_t addresses[kParametersMax + kStageParameters];
  const void* arguments[kParametersMax + kStageParameters];
  uint32_t count = 0;
  const auto address_in_slot = [&](int slot) {
    return execution.workspace + offsets[static_cast<size_t>(slot)];
  };
  for (const int number : kernel.buffers) {
    const auto buffer = static_cast<size_t>(number);
    const int slot = layout_.buffers()[buffer].slot;
    addresses[count] = slot < 0 ? execution.buffers[buffer] : address_in_slot(slot);
    arguments[count] = &addresses[count];
    ++count;
  }
  for (const int64_t& symbol : execution.symbols) arguments[count++] = &symbol;
  if (!kernel.stages.empty()) {
    addresses[count] = address_in_slot(layout_.barrier_slot());
    arguments[count] = &addresses[count];
    arguments[count + 1] = &ticket_;
    return LaunchStages(kernel, config, arguments, count + 2, execution.symbols);
  }
  return FromLaunch(kiln_launch_enqueue(kernel.kernel.get(), &config, arguments, count));
}

// All at once, or each alone where the device has no room for that. The stage is the last argument.
absl::Status BoundPlan::LaunchStages(const BoundKernel& kernel, kiln_launch_config& config,
                                     const void** arguments, uint32_t count,
                                     std::span<const int64_t> symbols) const {
  const auto stages = static_cast<uint32_t>(kernel.stages.size());
  uint32_t stage = stages;
  arguments[count++] = &stage;
  const auto launch = [&](int64_t blocks) {
    config.grid[0] = static_cast<uint32_t>(blocks);
    return FromLaunch(kiln_launch_enqueue(kernel.kernel.get(), &config, arguments, count));
  };
  if (kernel.resident_blocks > 0) {
    int64_t blocks = 0;
    for (const GridFactor& each : kernel.stages) blocks = std::max(blocks, BlocksOf(each, symbols));
    config.cooperative = 1;
    return launch(std::min<int64_t>(blocks, kernel.resident_blocks));
  }
  absl::Status status;
  for (stage = 0; status.ok() && stage < stages; ++stage) {
    status = launch(BlocksOf(kernel.stages[stage], symbols));
  }
  return status;
}

}  // namespace kiln::graph
