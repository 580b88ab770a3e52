// Parameters of a program that the planner has made.
#pragma once

#include <vector>

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// What only planning needed, as the shape of a Reshape, is no parameter.
void DropUnusedBuffers(LoopProgram& program);
// The values of the program's buffers. Buffers and symbols get names that depend on nothing but
// their place, so that equal layers of a model have one text, and are compiled once.
std::vector<int> TakeValues(LoopProgram& program);

void NameByPlace(std::vector<Symbol>& symbols);

}  // namespace kiln::graph
