// One order of a program's instructions, whatever the order is that they were made in.
#pragma once

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Instructions in the order in which the stores need them, without those that none needs. Kernels
// have equal texts then, and equal keys, though the compiler that built Kiln is free to evaluate
// the arguments of a call, which may be calls that make instructions, in any order. Inner axes keep
// their numbers: make them in statements of their own.
LoopProgram InOrderOfUse(LoopProgram program);

}  // namespace kiln::graph
