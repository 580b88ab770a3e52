// CUDA C++ for NVRTC, of a LoopProgram. Needs no header.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Errors are those of EmitC.
absl::StatusOr<EmittedKernel> EmitCuda(const LoopProgram& program, const EmitOptions& options);

// One kernel of several programs, a stage for each (emit/stages.h). Needs sm_70.
absl::StatusOr<EmittedKernel> EmitCudaStages(std::string name,
                                             const std::vector<LoopProgram>& programs,
                                             const EmitOptions& options);

}  // namespace kiln::graph
