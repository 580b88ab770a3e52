// Attention as Triton IR, without a matrix of scores in memory.
#pragma once

#include "absl/status/statusor.h"
#include "client/graph/emit/triton/attention.h"

namespace kiln::graph::triton {

// One program of the kernel takes a tile of queries, and goes over keys in tiles. It keeps the
// largest score of each query so far, and multiplies what it has summed up when that grows. (The
// algorithm is FlashAttention's: Dao et al., 2022.)
absl::StatusOr<EmittedKernel> EmitAttention(const LoopProgram& program, const Attention& attention,
                                            const EmitOptions& options);

}  // namespace kiln::graph::triton
