// What a bound plan checks before its first launch.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "client/graph/run/bound_plan.h"
#include "client/graph/run/refused.h"
#include "client/graph/run/symbol_ranges.h"

namespace kiln::graph {
namespace {

// Blocks along x, y, z: what CUDA takes.
constexpr int64_t kBlocksMax[] = {INT32_MAX, 65535, 65535};

}  // namespace

size_t BoundPlan::EndOf(const Execution& execution) const {
  const size_t left = steps_.size() - execution.first_step;
  return execution.first_step + (execution.steps == 0 ? left : std::min(execution.steps, left));
}

absl::Status BoundPlan::CheckSizes(const Execution& execution) const {
  if (absl::Status status = CheckSymbols(symbols_, execution.symbols); !status.ok()) return status;
  if (execution.buffers.size() != names_.size()) {
    return Refused("{} addresses are given, there are {} buffers", execution.buffers.size(),
                   names_.size());
  }
  if (execution.first_step > steps_.size()) {
    return Refused("there are {} steps, there is no number {}", steps_.size(),
                   execution.first_step);
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckReplay(const Execution& captured, const Execution& wanted) const {
  for (const Execution* each : {&captured, &wanted}) {
    if (absl::Status status = CheckSizes(*each); !status.ok()) return status;
  }
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (wanted.symbols[i] == captured.symbols[i]) continue;
    return Refused("symbol {} is {}: the graph has captured {}", symbols_[i].name,
                   wanted.symbols[i], captured.symbols[i]);
  }
  if (absl::Status status = CheckSteps(captured, wanted); !status.ok()) return status;
  for (size_t step = captured.first_step; step < EndOf(captured); ++step) {
    if (steps_[step].is_engines) continue;
    absl::Status status = ForEachLaunch(steps_[step], captured.symbols, [&](size_t kernel) {
      absl::Status checked = CheckKernel(kernel, captured);
      return checked.ok() ? CheckAddresses(kernel, captured, wanted) : checked;
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckSteps(const Execution& captured, const Execution& wanted) const {
  // Execute(wanted) comes no further than here.
  size_t stop = EndOf(captured);
  while (stop < steps_.size() && !steps_[stop].is_engines) ++stop;
  const size_t end = std::min(EndOf(wanted), stop);
  for (size_t step = 0; step < steps_.size(); ++step) {
    const bool is_captured = step >= captured.first_step && step < EndOf(captured);
    const bool is_wanted = step >= wanted.first_step && step < end;
    if (is_captured == is_wanted || steps_[step].is_engines) continue;
    return Refused("step {} (kernel {}) is {}: the graph has {}", step,
                   kernels_[steps_[step].first_kernel].entry,
                   is_wanted ? "to be launched" : "not asked for",
                   is_wanted ? "not captured it" : "captured it");
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckKernel(size_t kernel, const Execution& captured) const {
  const uint64_t mark = captured.kernels_mark;
  if (mark == 0) return absl::OkStatus();
  const std::string& entry = kernels_[kernel].entry;
  if (mark < first_mark_ || mark > KernelsMark()) {
    return Refused("kernel {}: the graph has captured that of another bound plan", entry);
  }
  if (mark < kernels_[kernel].mark) {
    return Refused("kernel {} was set after the graph was captured", entry);
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckAddresses(size_t kernel, const Execution& captured,
                                       const Execution& wanted) const {
  for (const int number : kernels_[kernel].buffers) {
    const auto buffer = static_cast<size_t>(number);
    if (!layout_.buffers()[buffer].is_external) {
      if (wanted.workspace == captured.workspace) continue;
      return Refused("the workspace is at {:#x}: the graph has captured {:#x}", wanted.workspace,
                     captured.workspace);
    }
    const uint64_t address = wanted.buffers[buffer];
    if (address == captured.buffers[buffer]) continue;
    return Refused("buffer {} is at {:#x}: the graph has captured {:#x}", NameOf(number), address,
                   captured.buffers[buffer]);
  }
  return absl::OkStatus();
}

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

// Sorts what is written, a stack's worth at a time, and looks each other buffer up in it.
absl::Status BoundPlan::CheckOverlaps(const Execution& execution) const {
  for (size_t first = 0; first < written_.size(); first += kRangesAtOnce) {
    Range ranges[kRangesAtOnce];
    const size_t end = std::min(first + kRangesAtOnce, written_.size());
    size_t count = 0;
    for (size_t i = first; i < end; ++i) {
      const Range range = RangeOf(written_[i], execution);
      if (range.begin != range.end) ranges[count++] = range;
    }
    const std::span<Range> sorted(ranges, count);
    std::ranges::sort(sorted, {}, &Range::begin);
    absl::Status status = CheckNeighbours(sorted, execution);
    for (size_t i = 0; status.ok() && i < external_.size(); ++i) {
      const External& other = external_[i];
      if (other.written >= first && other.written < end) continue;  // a neighbour, if it overlaps
      status = CheckAgainst(sorted, RangeOf(other.buffer, execution));
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

BoundPlan::Range BoundPlan::RangeOf(int buffer, const Execution& execution) const {
  const uint64_t begin = execution.buffers[static_cast<size_t>(buffer)];
  const auto& facts = layout_.buffers()[static_cast<size_t>(buffer)];
  const uint64_t bytes =
      begin == 0 ? 0 : MemoryLayout::BytesOf(facts, execution.symbols).value_or(UINT64_MAX - begin);
  return {begin, begin + bytes, buffer};
}

// Ranges that are written overlap neither each other nor the workspace.
absl::Status BoundPlan::CheckNeighbours(std::span<const Range> sorted,
                                        const Execution& execution) const {
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Range& range = sorted[i];
    if (i > 0 && sorted[i - 1].end > range.begin) {
      const auto [one, other] = std::minmax(sorted[i - 1].buffer, range.buffer);
      return Refused("buffer {} is written and overlaps buffer {}", NameOf(one), NameOf(other));
    }
    if (execution.workspace < range.end &&
        execution.workspace + execution.workspace_bytes > range.begin) {
      return Refused("buffer {} is written and overlaps the workspace", NameOf(range.buffer));
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckAgainst(std::span<const Range> sorted, const Range& other) const {
  if (other.begin == other.end) return absl::OkStatus();
  const auto behind = std::ranges::lower_bound(sorted, other.end, {}, &Range::begin);
  if (behind == sorted.begin() || std::prev(behind)->end <= other.begin) return absl::OkStatus();
  return Refused("buffer {} is written and overlaps buffer {}", NameOf(std::prev(behind)->buffer),
                 NameOf(other.buffer));
}

// All zeros where there is nothing to launch.
absl::Status BoundPlan::GridAt(const BoundKernel& kernel, std::span<const int64_t> symbols,
                               uint32_t grid[3]) const {
  int64_t blocks[] = {1, 1, 1};
  for (size_t i = 0; i < kernel.grid.size(); ++i) {
    blocks[i] = BlocksOf(kernel.grid[i], symbols);
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

absl::Status BoundPlan::CheckStages(const BoundKernel& kernel,
                                    std::span<const int64_t> symbols) const {
  for (const GridFactor& stage : kernel.stages) {
    const int64_t blocks = BlocksOf(stage, symbols);
    if (blocks >= 0 && blocks <= kBlocksMax[0]) continue;
    return Refused("kernel {}: a stage has at most {} blocks, {} positions take more", kernel.entry,
                   kBlocksMax[0], stage.extent.ToString(symbols_));
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::CheckStep(const BoundStep& step, const Execution& execution) const {
  return ForEachLaunch(step, execution.symbols, [&](size_t i) -> absl::Status {
    uint32_t grid[3];
    absl::Status set = CheckIsSet(i);
    if (set.ok()) set = GridAt(kernels_[i], execution.symbols, grid);
    if (set.ok()) set = CheckStages(kernels_[i], execution.symbols);
    if (!set.ok()) return set;
    for (const int buffer : kernels_[i].buffers) {
      if (!layout_.buffers()[static_cast<size_t>(buffer)].is_external) continue;
      if (absl::Status status = CheckBuffer(buffer, execution); !status.ok()) return status;
    }
    return absl::OkStatus();
  });
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

}  // namespace kiln::graph
