// The fields of KernelMetadata that hold one number or flag each.
#pragma once

#include <cstdint>

#include "daemon/kernel/kernel.h"

namespace kiln {

// Calls `visit(name, member, max)` for each. The name is that of the field in the artifact's
// document, in a worker's reply and in kiln.v1.KernelMetadata; a worker's number is between 0 and
// `max`. `Metadata` is KernelMetadata, const or not; members are int64_t, bool or
// std::optional<int64_t>.
template <typename Metadata, typename Visit>
void ForEachField(Metadata& metadata, Visit&& visit) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  constexpr uint64_t kSmallMax = 1 << 20;
  visit("shared_bytes", metadata.shared_bytes, kBytesMax);
  visit("num_warps", metadata.num_warps, kSmallMax);
  visit("num_ctas", metadata.num_ctas, kSmallMax);
  visit("warp_size", metadata.warp_size, uint64_t{128});
  visit("global_scratch_bytes", metadata.global_scratch_bytes, kBytesMax);
  visit("global_scratch_align", metadata.global_scratch_align, kBytesMax);
  visit("profile_scratch_bytes", metadata.profile_scratch_bytes, kBytesMax);
  visit("profile_scratch_align", metadata.profile_scratch_align, kBytesMax);
  visit("tensor_memory_columns", metadata.tensor_memory_columns, kSmallMax);
  visit("launch_pdl", metadata.launch_pdl, uint64_t{1});
  visit("launch_cooperative_grid", metadata.launch_cooperative_grid, uint64_t{1});
  visit("registers", metadata.registers, kSmallMax);
  visit("spill_bytes", metadata.spill_bytes, kBytesMax);
  visit("hidden_pointers", metadata.hidden_pointers, uint64_t{16});
}

}  // namespace kiln
