// Products of matrices as Triton IR that multiplies tiles.
#pragma once

#include "absl/status/statusor.h"
#include "client/graph/emit/triton/product.h"

namespace kiln::graph::triton {

// One program of the kernel computes a tile of the result: a loop over depth adds products of
// tiles, then come the instructions behind the sum.
absl::StatusOr<EmittedKernel> EmitProduct(const LoopProgram& program, const Product& product,
                                          const EmitOptions& options);

}  // namespace kiln::graph::triton
