// Arithmetic on shapes and strides.
#pragma once

#include <string>
#include <vector>

#include "client/graph/segment/segment.h"

namespace kiln::graph {

Size ElementsOf(const std::vector<Size>& shape);
std::vector<Size> RowMajorStrides(const std::vector<Size>& shape);
// Those of the value, row-major ones where it has none.
std::vector<Size> StridesOf(const Value& value);
// "[batch, 4*heads, 7]".
std::string ShapeText(const std::vector<Size>& shape, const std::vector<Symbol>& symbols);

}  // namespace kiln::graph
