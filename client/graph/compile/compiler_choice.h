// Which compiler a program had better be written for: the one table of preferences.
#pragma once

#include <string_view>
#include <vector>

#include "client/graph/compile/compiler.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

struct CompilerChoice {
  Compiler compiler = Compiler::kCuda;
  std::string_view why;
};

// Those that make code for the target and may be used; the forced one alone, if there is one.
// INVALID_ARGUMENT: the target is unknown, or there is none.
[[nodiscard]] absl::StatusOr<std::vector<Compiler>> UsableCompilers(const CompileConfig& config);
// Whether one of them multiplies tiles: PlanConfig::multiplies_tiles.
bool MultipliesTiles(const CompileConfig& config);
// Those of them that suit the program, best first.
[[nodiscard]] absl::StatusOr<std::vector<CompilerChoice>> ChoicesFor(const LoopProgram& program,
                                                                     const CompileConfig& config);

}  // namespace kiln::graph
