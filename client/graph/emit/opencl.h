// OpenCL C 2.0, of a LoopProgram, for devices with pointers of 64 bits.
#pragma once

#include "absl/status/statusor.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Errors are those of EmitC.
absl::StatusOr<EmittedKernel> EmitOpenCl(const LoopProgram& program, const EmitOptions& options);

}  // namespace kiln::graph
