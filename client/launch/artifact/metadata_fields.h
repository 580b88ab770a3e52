// The fields of KernelMetadata that hold one number or flag each.
#pragma once

#include <cstdint>

#include "client/launch/artifact/metadata.h"
#include "storage/base/limits.h"

namespace kiln::launch {

// Calls `visit(number, name, member, min, max)` for each. Number and name are those of the field in
// kiln.v1.KernelMetadata; the name is also that in JSON. Members are int64_t or bool.
template <typename Visit>
void ForEachField(KernelMetadata& metadata, Visit&& visit) {
  constexpr int64_t kBytesMax = int64_t{1} << 40;
  visit(3, "shared_bytes", metadata.shared_bytes, 0, int64_t{1} << 30);
  visit(4, "num_warps", metadata.num_warps, 0, int64_t{limits::kNumWarpsMax});
  visit(5, "num_ctas", metadata.num_ctas, 1, int64_t{limits::kNumCtasMax});
  visit(6, "warp_size", metadata.warp_size, 1, 128);
  visit(7, "global_scratch_bytes", metadata.global_scratch_bytes, 0, kBytesMax);
  visit(8, "global_scratch_align", metadata.global_scratch_align, 0, kBytesMax);
  visit(9, "profile_scratch_bytes", metadata.profile_scratch_bytes, 0, kBytesMax);
  visit(10, "profile_scratch_align", metadata.profile_scratch_align, 0, kBytesMax);
  visit(11, "tensor_memory_columns", metadata.tensor_memory_columns, 0, 1 << 20);
  visit(13, "launch_pdl", metadata.launch_pdl, 0, 1);
  visit(14, "launch_cooperative_grid", metadata.launch_cooperative_grid, 0, 1);
  visit(19, "hidden_pointers", metadata.hidden_pointers, 0, int64_t{limits::kHiddenPointersMax});
}

}  // namespace kiln::launch
