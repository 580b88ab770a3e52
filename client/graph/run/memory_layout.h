// Where the values of a plan are in memory. The engine has those that it gives or wants to see; the
// others lie in one workspace, where values that are not needed at the same time share a slot.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/compile/kernel_plan.h"

namespace kiln::graph {

// Values in the workspace begin at multiples of it from its beginning.
inline constexpr uint64_t kSlotAlignment = 256;
// Values that are in the workspace at the same time.
inline constexpr size_t kSlotsMax = 1024;

// A value that a kernel reads or writes.
struct PlanBuffer {
  int value = 0;
  // Its address is the engine's: an input, a constant, an output, what outputs are views of, or
  // shared with an engine's step.
  bool is_external = false;
  bool is_written = false;    // by a kernel
  int slot = -1;              // in the workspace
  uint64_t alignment = 1;     // in bytes; what the kernels assume
  int bits = 0;               // of an element
  std::vector<Size> extents;  // those that can be 0 and are not seen in `span`
  Size span;                  // elements from the first to the last
};

class MemoryLayout {
 public:
  // RESOURCE_EXHAUSTED: more than kSlotsMax.
  [[nodiscard]] static absl::StatusOr<MemoryLayout> Make(const KernelPlan& plan);

  const std::vector<PlanBuffer>& buffers() const { return buffers_; }
  int BufferOf(int value) const { return buffer_of_value_[static_cast<size_t>(value)]; }
  size_t slots() const { return slots_.size(); }
  // The slot of kBarrierBytes that kernels with stages share; -1: there is no such kernel.
  int barrier_slot() const { return barrier_slot_; }
  // What the kernels assume of the workspace's address, in bytes.
  uint64_t workspace_alignment() const { return workspace_alignment_; }

  // With a size for each symbol. Nothing where that overflows. None of them allocates.
  static std::optional<uint64_t> BytesOf(const PlanBuffer& buffer,
                                         std::span<const int64_t> symbols);
  // Where each slot begins. `offsets` has room for slots(). The workspace's bytes, or nothing.
  std::optional<uint64_t> PlaceSlots(std::span<const int64_t> symbols, uint64_t* offsets) const;

 private:
  MemoryLayout() = default;
  void AddBuffers(const KernelPlan& plan);
  void AssignSlots(const KernelPlan& plan);

  std::vector<PlanBuffer> buffers_;
  std::vector<int> buffer_of_value_;     // -1: not in memory
  std::vector<std::vector<int>> slots_;  // the buffers of each
  int barrier_slot_ = -1;
  uint64_t workspace_alignment_ = 1;
};

}  // namespace kiln::graph
