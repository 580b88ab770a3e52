// LoopPrograms as Triton IR.
#pragma once

#include "absl/status/statusor.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// One program of the kernel takes a block of outer positions, in row-major order. Each loop over
// inner axes takes them in blocks, in row-major order too; a loop within such a loop goes one by
// one. The kernel suits all GPUs of `options.backend`: fp8 is converted in integers.
// INVALID_ARGUMENT for a program that WhatIsWrong names. UNIMPLEMENTED for some atomic stores of
// narrow types, and a buffer that is read in a loop after another has written it.
absl::StatusOr<EmittedKernel> EmitTriton(const LoopProgram& program, const EmitOptions& options);

}  // namespace kiln::graph
