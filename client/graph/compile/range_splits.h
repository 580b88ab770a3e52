// Where a kernel of its own for a part of the symbols' ranges pays.
#pragma once

#include <string>
#include <vector>

#include "client/graph/plan/cost_model.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// A part of the ranges: the program's symbols, one or more of them narrower.
struct RangeSplit {
  std::vector<Symbol> symbols;
  std::string why;  // "tokens up to 256: smaller tiles"
};

// Those that pay, by the model; the narrowest first. The program, with these symbols in place of
// its own, is as right as before.
std::vector<RangeSplit> SplitsOf(const LoopProgram& program, const CostModel& model);

}  // namespace kiln::graph
