// PTX (ISA 7.8, sm_80 and later) of a LoopProgram without inner axes: text from templates, in
// microseconds, that needs ptxas alone.
#pragma once

#include "absl/status/statusor.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// INVALID_ARGUMENT for a program that WhatIsWrong names. UNIMPLEMENTED for reductions and inner
// axes, for arithmetic on fp8, and, by name, for functions that PTX lacks; some of these it has
// with fast_math.
absl::StatusOr<EmittedKernel> EmitPtx(const LoopProgram& program, const EmitOptions& options);

}  // namespace kiln::graph
