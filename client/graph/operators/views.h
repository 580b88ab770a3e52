// Which outputs can be views: the input's memory with other strides, no kernel at all.
#pragma once

#include <optional>
#include <vector>

#include "client/graph/operators/lowering.h"

namespace kiln::graph {

// Where an element of a tensor lies in memory: offset + sum of position * stride, in elements.
struct View {
  Size offset = 0;
  std::vector<Size> strides;  // one for each dimension; 0 repeats elements
  bool operator==(const View&) const = default;
};

// Output `output` on the memory of the first input, whose elements lie as `input` says. Nothing
// where the operation needs a copy, or is of another kind. The operation's values have shapes.
std::optional<View> ViewOf(const Segment& segment, const Operation& operation, size_t output,
                           const View& input);

}  // namespace kiln::graph
