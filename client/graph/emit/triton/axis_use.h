// Which axes instructions depend on.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// For each instruction the axes, outer and inner, that its value differs along. Those that a
// reduction goes over are no longer among its own.
std::vector<std::set<int>> UsedAxes(const LoopProgram& program);

// Whether they have an axis in common: sets or vectors.
bool Meets(const auto& axes, const auto& others) {
  return std::ranges::any_of(
      axes, [&](int axis) { return std::ranges::find(others, axis) != others.end(); });
}

}  // namespace kiln::graph::triton
