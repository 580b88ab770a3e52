// What Resize and Upsample make of each dimension.
#pragma once

#include <vector>

#include "client/graph/operators/operands.h"

namespace kiln::graph {

struct ResizedDimension {
  Size extent;  // of the output
  double scale = 1;
  int roi = -1;  // its number among the resized axes, -1: it is not resized
};

struct ResizedShape {
  std::vector<ResizedDimension> dimensions;  // for each dimension of the input
  size_t axes = 0;                           // that are resized
};

// By scales, which are the attribute or input `scales_input`, or by sizes, the input behind it.
absl::StatusOr<ResizedShape> ResizedShapeOf(const Operands& operands, size_t scales_input);

}  // namespace kiln::graph
