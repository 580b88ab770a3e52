// Named LoopPrograms, with buffers that they run on.
#pragma once

#include <string>
#include <vector>

#include "client/graph/program/loop_program.h"
#include "client/graph/program/program_builder.h"
#include "tests/testing/graph/program_interpreter.h"

namespace kiln::graph {

struct ProgramCase {
  LoopProgram program;
  std::vector<int64_t> symbols;
  std::vector<TestBuffer> buffers;
};

// A number of each element: the same in every run.
std::vector<double> Numbers(int64_t count, double from, double to, int seed = 1);
// a * b + c, of i64 instructions and constants.
int RowMajor(ProgramBuilder& builder, int row, int64_t columns, int column);

// Every opcode for every type that computes, every cast, constants.
std::vector<ProgramCase> OperatorPrograms();
// Loops, masks, symbols, reductions and atomic stores.
std::vector<ProgramCase> LoopPrograms();
// Sections of plans: products, and what they are fused with.
std::vector<ProgramCase> TiledPrograms();

}  // namespace kiln::graph
