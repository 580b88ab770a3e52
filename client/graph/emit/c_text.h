// Prints a LoopProgram as a kernel in a language like C. ThreadLayout says which threads share the
// positions of the flattened outer axes; each inner axis is a loop.
#pragma once

#include "absl/status/statusor.h"
#include "client/graph/emit/c_dialect.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// INVALID_ARGUMENT for a program that WhatIsWrong names.
absl::Status CheckC(const LoopProgram& program);
// UNIMPLEMENTED for programs that read elements of a buffer in one loop and write them in another.
absl::StatusOr<EmittedKernel> EmitC(const LoopProgram& program, const CDialect& dialect,
                                    const EmitOptions& options);

}  // namespace kiln::graph
