// Shapes and positions of reshapes, slices and splits: for their rules and for views.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/operators/operands.h"

namespace kiln::graph {

// Neighbouring dimensions of both shapes with the same number of elements.
struct ReshapeGroup {
  size_t from_begin = 0;
  size_t from_end = 0;
  size_t to_begin = 0;
  size_t to_end = 0;
};
// The smallest groups, first to last. Both shapes have the same number of elements. Dimensions of
// extent 1 may be in no group.
std::vector<ReshapeGroup> GroupsOf(const Shape& from, const Shape& to);

// A slice of one dimension: elements start, start + step, …
struct SliceRange {
  Size start = 0;
  Size length = 0;
  int64_t step = 1;
};
// For each dimension of the input of a Slice.
absl::StatusOr<std::vector<SliceRange>> RangesOfSlice(const Operands& operands);
// The dimension that a Split divides, and where each output begins; the last number is the end.
struct SplitPlan {
  size_t axis = 0;
  std::vector<Size> begins;
};
absl::StatusOr<SplitPlan> PlanOfSplit(const Operands& operands);
// For each dimension of the output of a Transpose, that of the input.
absl::StatusOr<std::vector<size_t>> PermutationOf(const Operands& operands);
// What Reshape, Flatten, Squeeze, Unsqueeze give.
absl::StatusOr<Shape> ReshapedShape(const Operands& operands);
absl::StatusOr<Shape> FlattenedShape(const Operands& operands);
absl::StatusOr<Shape> SqueezedShape(const Operands& operands);
absl::StatusOr<Shape> UnsqueezedShape(const Operands& operands);

}  // namespace kiln::graph
