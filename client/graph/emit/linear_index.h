// Indexes of loads and stores that are sums of positions times strides.
#pragma once

#include <optional>
#include <vector>

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// offset + the sum of strides[axis] * position on the axis.
struct LinearIndex {
  Size offset;
  std::vector<Size> strides;  // by axis
};

// The index that each instruction is: nothing where it is no i64, no such sum, or too large.
std::vector<std::optional<LinearIndex>> LinearIndexesOf(const LoopProgram& program);

}  // namespace kiln::graph
