// Sizes and positions as values of a kernel.
#pragma once

#include <vector>

#include "client/graph/emit/triton/ir_builder.h"
#include "client/graph/program/size.h"

namespace kiln::graph::triton {

using Axes = std::vector<int>;

inline const Type kIndex{Scalar::kI64};

// `symbols` are the kernel's parameters.
Value SizeValue(IrBuilder& ir, const Size& size, const std::vector<Value>& symbols);

// A position in row-major order, a scalar or a tensor, as one for each of the extents.
// `is_narrow`: all positions fit an i32, whose divisions are many times faster.
std::vector<Value> SplitPosition(IrBuilder& ir, const std::vector<Size>& extents, Value flat,
                                 bool is_narrow, const std::vector<Value>& symbols);

}  // namespace kiln::graph::triton
