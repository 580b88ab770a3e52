#include "client/graph/run/memory_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

PlanBuffer BufferOfValue(const Segment& segment, int number) {
  const Value& value = segment.values[static_cast<size_t>(number)];
  PlanBuffer buffer;
  buffer.value = number;
  buffer.is_external = value.is_input || value.is_output;
  buffer.bits = FactsOf(value.type).bits;
  const std::vector<Size> strides = StridesOf(value);
  buffer.span = 1;
  for (size_t i = 0; i < strides.size(); ++i) buffer.span += (value.shape[i] - 1) * strides[i];
  if (value.strides) buffer.extents = value.shape;
  return buffer;
}

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

// Gives each buffer a slot that no other needs at the same time.
class SlotAssignment {
 public:
  // Steps are told in order; of the free slots the one is taken whose size is nearest.
  int Take(uint64_t bytes, size_t until) {
    auto best = slots_.end();
    for (auto slot = slots_.begin(); slot != slots_.end(); ++slot) {
      if (slot->until < step_ &&
          (best == slots_.end() || Apart(slot->bytes, bytes) < Apart(best->bytes, bytes))) {
        best = slot;
      }
    }
    if (best == slots_.end()) best = slots_.insert(best, Slot{});
    best->bytes = std::max(best->bytes, bytes);
    best->until = until;
    return static_cast<int>(best - slots_.begin());
  }
  void BeginStep(size_t step) { step_ = step; }
  size_t count() const { return slots_.size(); }

 private:
  struct Slot {
    uint64_t bytes = 0;  // at the typical symbols
    size_t until = 0;    // the last step that needs what it holds
  };
  static uint64_t Apart(uint64_t one, uint64_t other) {
    return std::max(one, other) - std::min(one, other);
  }

  std::vector<Slot> slots_;
  size_t step_ = 0;
};

}  // namespace

absl::StatusOr<MemoryLayout> MemoryLayout::Make(const KernelPlan& plan) {
  MemoryLayout layout;
  layout.AddBuffers(plan);
  layout.AssignSlots(plan);
  if (layout.slots() > kSlotsMax) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} values are in the workspace at the same time, {} can be", layout.slots(), kSlotsMax));
  }
  return layout;
}

void MemoryLayout::AddBuffers(const KernelPlan& plan) {
  buffer_of_value_.assign(plan.segment().values.size(), -1);
  for (const KernelStep& step : plan.steps()) {
    for (int i = step.first_kernel; i < step.first_kernel + step.kernels; ++i) {
      const PlannedKernel& kernel = plan.kernels()[static_cast<size_t>(i)];
      for (size_t parameter = 0; parameter < kernel.buffers.size(); ++parameter) {
        const int value = kernel.buffers[parameter];
        int& number = buffer_of_value_[static_cast<size_t>(value)];
        if (number < 0) {
          number = static_cast<int>(buffers_.size());
          buffers_.push_back(BufferOfValue(plan.segment(), value));
        }
        PlanBuffer& buffer = buffers_[static_cast<size_t>(number)];
        const Buffer& assumed = kernel.program.buffers[parameter];
        buffer.is_written |= assumed.is_written;
        buffer.alignment = std::max(buffer.alignment, static_cast<uint64_t>(assumed.alignment));
      }
    }
  }
  for (const OutputView& view : plan.plan().views) {
    if (const int base = BufferOf(view.base); base >= 0) {
      buffers_[static_cast<size_t>(base)].is_external = true;
    }
  }
  for (const KernelStep& step : plan.steps()) {
    if (!step.is_engines) continue;
    const Operation& operation = plan.segment().operations[static_cast<size_t>(step.operation)];
    for (const std::vector<int>* operands : {&operation.inputs, &operation.outputs}) {
      for (const int value : *operands) {
        const int number = value == kOmitted ? -1 : BufferOf(value);
        if (number >= 0) buffers_[static_cast<size_t>(number)].is_external = true;
      }
    }
  }
}

void MemoryLayout::AssignSlots(const KernelPlan& plan) {
  std::vector<std::vector<int>> uses(plan.steps().size());  // of the workspace, by step
  std::vector<size_t> last(buffers_.size(), 0);             // the last step that needs each buffer
  for (size_t number = 0; number < plan.steps().size(); ++number) {
    const KernelStep& step = plan.steps()[number];
    for (int i = step.first_kernel; i < step.first_kernel + step.kernels; ++i) {
      for (const int value : plan.kernels()[static_cast<size_t>(i)].buffers) {
        const int buffer = BufferOf(value);
        if (buffers_[static_cast<size_t>(buffer)].is_external) continue;
        uses[number].push_back(buffer);
        last[static_cast<size_t>(buffer)] = number;
      }
    }
  }
  std::vector<int64_t> typical;
  for (const Symbol& symbol : plan.segment().symbols) typical.push_back(symbol.typical);
  SlotAssignment assignment;
  for (size_t step = 0; step < uses.size(); ++step) {
    assignment.BeginStep(step);
    for (const int number : uses[step]) {
      PlanBuffer& buffer = buffers_[static_cast<size_t>(number)];
      if (buffer.slot >= 0) continue;
      buffer.slot = assignment.Take(BytesOf(buffer, typical).value_or(UINT64_MAX),
                                    last[static_cast<size_t>(number)]);
    }
  }
  slots_.resize(assignment.count());
  for (size_t number = 0; number < buffers_.size(); ++number) {
    const PlanBuffer& buffer = buffers_[number];
    if (buffer.slot < 0) continue;
    slots_[static_cast<size_t>(buffer.slot)].push_back(static_cast<int>(number));
    workspace_alignment_ = std::max(workspace_alignment_, buffer.alignment);
  }
  for (const KernelStep& step : plan.steps()) {
    if (step.kernels == 0 || barrier_slot_ >= 0) continue;
    const PlannedKernel& first = plan.kernels()[static_cast<size_t>(step.first_kernel)];
    if (first.kernel.stages.empty()) continue;
    barrier_slot_ = static_cast<int>(slots_.size());
    slots_.emplace_back();
    workspace_alignment_ = std::max(workspace_alignment_, uint64_t{alignof(uint64_t)});
  }
}

std::optional<uint64_t> MemoryLayout::BytesOf(const PlanBuffer& buffer,
                                              std::span<const int64_t> symbols) {
  for (const Size& extent : buffer.extents) {
    if (extent.EvaluateAt(symbols) == 0) return 0;
  }
  const auto span = buffer.span.EvaluateAt(symbols);
  int64_t bits = 0;
  if (!span || *span < 0 || __builtin_mul_overflow(*span, buffer.bits, &bits)) return std::nullopt;
  return (static_cast<uint64_t>(bits) + 7) / 8;
}

std::optional<uint64_t> MemoryLayout::PlaceSlots(std::span<const int64_t> symbols,
                                                 uint64_t* offsets) const {
  uint64_t end = 0;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    uint64_t size = static_cast<int>(slot) == barrier_slot_ ? kBarrierBytes : 0;
    for (const int buffer : slots_[slot]) {
      const auto bytes = BytesOf(buffers_[static_cast<size_t>(buffer)], symbols);
      if (!bytes) return std::nullopt;
      size = std::max(size, *bytes);
    }
    offsets[slot] = end;
    if (__builtin_add_overflow(end, RoundUp(size), &end)) return std::nullopt;
  }
  return end;
}

}  // namespace kiln::graph
