// Groups of positions as an axis of their own.
#pragma once

#include <optional>

#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// The program with an outer axis in two: `position / n` becomes the position on an axis of groups
// in front of one of n. So the channels of a convolution's output are a batch of groups, in which
// its input does not differ, and rows of the weight. Nothing where no axis is divided by a constant
// that divides its extent.
std::optional<LoopProgram> SplitGroups(const LoopProgram& program);

}  // namespace kiln::graph::triton
