#include "client/graph/run/bound_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "client/graph/run/symbol_ranges.h"

namespace kiln::graph {
namespace {

absl::Status FromLaunch(kiln_launch_code code) {
  if (code == KILN_LAUNCH_OK) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), kiln_launch_error());
}

template <typename... Arguments>
absl::Status Refused(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Blocks along x, y, z: what CUDA takes.
constexpr int64_t kBlocksMax[] = {INT32_MAX, 65535, 65535};

}  // namespace

absl::StatusOr<std::unique_ptr<BoundPlan>> BoundPlan::Make(const KernelPlan& plan,
                                                           kiln_launch_runtime* runtime,
                                                           int device) {
  const size_t symbols = plan.segment().symbols.size();
  for (const PlannedKernel& kernel : plan.kernels()) {
    if (kernel.buffers.size() + symbols > kParametersMax) {
      return absl::ResourceExhaustedError(
          fmt::format("kernel {} has {} parameters, {} are possible", kernel.kernel.entry,
                      kernel.buffers.size() + symbols, kParametersMax));
    }
  }
  auto layout = MemoryLayout::Make(plan);
  if (!layout.ok()) return layout.status();
  return std::unique_ptr<BoundPlan>(new BoundPlan(plan, *std::move(layout), runtime, device));
}

BoundPlan::BoundPlan(const KernelPlan& plan, MemoryLayout layout, kiln_launch_runtime* runtime,
                     int device)
    : symbols_(plan.segment().symbols),
      layout_(std::move(layout)),
      runtime_(runtime),
      device_(device) {
  for (const PlanBuffer& buffer : layout_.buffers()) {
    names_.push_back(plan.segment().values[static_cast<size_t>(buffer.value)].name);
  }
  for (const PlannedKernel& planned : plan.kernels()) {
    BoundKernel& kernel = kernels_.emplace_back();
    kernel.entry = planned.kernel.entry;
    kernel.grid = planned.kernel.grid;
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
}

absl::Status BoundPlan::CheckIsOurs(size_t kernel) const {
  if (kernel >= kernels_.size()) {
    return Refused("there are {} kernels, there is no number {}", kernels_.size(), kernel);
  }
  for (const BoundStep& step : steps_) {
    if (kernel >= step.first_kernel && kernel < step.end_kernel) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("kernel {} ({}): its step is the engine's", kernel, kernels_[kernel].entry));
}

absl::Status BoundPlan::Keep(size_t kernel, kiln_launch_code code, kiln_launch_kernel* opened) {
  if (code == KILN_LAUNCH_OK) kernels_[kernel].kernel.reset(opened);
  return FromLaunch(code);
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
  for (const BoundStep& step : steps_) {
    for (size_t i = step.first_kernel; i < step.end_kernel; ++i) {
      absl::Status status = CheckIsSet(i);
      if (status.ok()) status = FromLaunch(kiln_launch_prepare(kernels_[i].kernel.get()));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> BoundPlan::WorkspaceBytes(std::span<const int64_t> symbols) const {
  if (absl::Status status = CheckSymbols(symbols_, symbols); !status.ok()) return status;
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

absl::Status BoundPlan::CheckBuffer(int buffer, const Execution& execution) const {
  const PlanBuffer& facts = layout_.buffers()[static_cast<size_t>(buffer)];
  const uint64_t address = execution.buffers[static_cast<size_t>(buffer)];
  const auto bytes = MemoryLayout::BytesOf(facts, execution.symbols);
  if (!bytes) return Refused("the size of {} overflows", NameOf(buffer));
  if (*bytes == 0) return absl::OkStatus();
  if (address == 0) return Refused("buffer {} has no address", NameOf(buffer));
  if (address % facts.alignment != 0) {
    return Refused("buffer {} is at {:#x}, which is no multiple of {}", NameOf(buffer), address,
                   facts.alignment);
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckOverlaps(int written, const Execution& execution) const {
  const auto& buffers = layout_.buffers();
  const uint64_t begin = execution.buffers[static_cast<size_t>(written)];
  const uint64_t end =
      begin +
      MemoryLayout::BytesOf(buffers[static_cast<size_t>(written)], execution.symbols).value_or(0);
  if (begin == end) return absl::OkStatus();
  const auto refuse = [&](std::string_view other) {
    return Refused("buffer {} is written and overlaps {}", NameOf(written), other);
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t other = execution.buffers[i];
    if (!buffers[i].is_external || static_cast<int>(i) == written || other == 0 || other >= end) {
      continue;
    }
    const uint64_t bytes = MemoryLayout::BytesOf(buffers[i], execution.symbols).value_or(0);
    if (bytes != 0 && other + bytes > begin) return refuse(fmt::format("buffer {}", names_[i]));
  }
  if (execution.workspace < end && execution.workspace + execution.workspace_bytes > begin) {
    return refuse("the workspace");
  }
  return absl::OkStatus();
}

// All zeros where there is nothing to launch.
absl::Status BoundPlan::GridAt(const BoundKernel& kernel, std::span<const int64_t> symbols,
                               uint32_t grid[3]) const {
  int64_t blocks[] = {1, 1, 1};
  for (size_t i = 0; i < kernel.grid.size(); ++i) {
    const auto extent = kernel.grid[i].extent.EvaluateAt(symbols);
    const int64_t tile = kernel.grid[i].tile;
    blocks[i] = extent ? *extent / tile + (*extent % tile != 0 ? 1 : 0) : -1;
  }
  const bool is_empty = std::ranges::count(blocks, 0) > 0;
  for (size_t i = 0; i < 3; ++i) {
    if (!is_empty && (blocks[i] < 0 || blocks[i] > kBlocksMax[i])) {
      return Refused("kernel {}: its grid has at most {} blocks along {}, {} positions take more",
                     kernel.entry, kBlocksMax[i], "xyz"[i],
                     kernel.grid[i].extent.ToString(symbols_));
    }
    grid[i] = is_empty ? 0 : static_cast<uint32_t>(blocks[i]);
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckKernels(size_t first, size_t end, const Execution& execution) const {
  for (size_t i = first; i < end; ++i) {
    uint32_t grid[3];
    absl::Status set = CheckIsSet(i);
    if (set.ok()) set = GridAt(kernels_[i], execution.symbols, grid);
    if (!set.ok()) return set;
    for (const int buffer : kernels_[i].buffers) {
      if (!layout_.buffers()[static_cast<size_t>(buffer)].is_external) continue;
      if (absl::Status status = CheckBuffer(buffer, execution); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckWorkspace(std::optional<uint64_t> bytes,
                                       const Execution& execution) const {
  if (!bytes) return Refused("the size of the workspace overflows");
  if (*bytes == 0) return absl::OkStatus();
  if (execution.workspace == 0 || execution.workspace_bytes < *bytes) {
    return Refused("the workspace has {} bytes, {} are needed",
                   execution.workspace == 0 ? 0 : execution.workspace_bytes, *bytes);
  }
  if (execution.workspace % layout_.workspace_alignment() != 0) {
    return Refused("the workspace is at {:#x}, which is no multiple of {}", execution.workspace,
                   layout_.workspace_alignment());
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::Execute(const Execution& execution, size_t& next_step) const {
  if (absl::Status status = CheckSymbols(symbols_, execution.symbols); !status.ok()) return status;
  if (execution.buffers.size() != names_.size()) {
    return Refused("{} addresses are given, there are {} buffers", execution.buffers.size(),
                   names_.size());
  }
  if (execution.first_step > steps_.size()) {
    return Refused("there are {} steps, there is no number {}", steps_.size(),
                   execution.first_step);
  }
  size_t end = steps_.size();
  if (execution.steps != 0)
    end = execution.first_step + std::min(execution.steps, end - execution.first_step);
  size_t step = execution.first_step;
  while (step < end && !steps_[step].is_engines) ++step;
  if (step == execution.first_step) {
    next_step = step;
    return absl::OkStatus();
  }
  const size_t first_kernel = steps_[execution.first_step].first_kernel;
  const size_t end_kernel = steps_[step - 1].end_kernel;
  if (absl::Status status = CheckKernels(first_kernel, end_kernel, execution); !status.ok()) {
    return status;
  }
  uint64_t offsets[kSlotsMax];
  absl::Status status = CheckWorkspace(layout_.PlaceSlots(execution.symbols, offsets), execution);
  for (size_t i = 0; status.ok() && i < names_.size(); ++i) {
    const PlanBuffer& buffer = layout_.buffers()[i];
    if (buffer.is_external && buffer.is_written && execution.buffers[i] != 0) {
      status = CheckOverlaps(static_cast<int>(i), execution);
    }
  }
  for (size_t i = first_kernel; status.ok() && i < end_kernel; ++i) {
    status = Launch(kernels_[i], offsets, execution);
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
  uint64_t addresses[kParametersMax];
  const void* arguments[kParametersMax];
  uint32_t count = 0;
  for (const int number : kernel.buffers) {
    const auto buffer = static_cast<size_t>(number);
    const int slot = layout_.buffers()[buffer].slot;
    addresses[count] = slot < 0 ? execution.buffers[buffer]
                                : execution.workspace + offsets[static_cast<size_t>(slot)];
    arguments[count] = &addresses[count];
    ++count;
  }
  for (const int64_t& symbol : execution.symbols) arguments[count++] = &symbol;
  return FromLaunch(kiln_launch_enqueue(kernel.kernel.get(), &config, arguments, count));
}

}  // namespace kiln::graph
