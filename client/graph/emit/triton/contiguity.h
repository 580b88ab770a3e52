// Which positions of a program are neighbours in memory.
#pragma once

#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// Whether a load or store in a loop walks along the last outer axis, and strides along the inner
// ones: as the sum of a matrix's columns does. Blocks are wide in outer positions then.
bool NeighboursAreOuter(const LoopProgram& program);

}  // namespace kiln::graph::triton
