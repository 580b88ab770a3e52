// Several programs as one kernel: a stage for each, computed one after the other by all blocks. A
// barrier of the whole grid stands before a stage that reads what a stage behind the last barrier
// has written. The text bases on this alone: all blocks are resident, so launches are cooperative.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/emit/c_dialect.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Buffers and symbols of all programs, as the kernel takes them: in the order of first use.
LoopProgram CommonParameters(const std::vector<LoopProgram>& programs);

// Buffers of one name are one buffer; all programs have the same symbols. No buffer is written by
// two programs, or read before it is written. Errors are those of EmitC. REQUIRES: the dialect has
// a grid barrier.
absl::StatusOr<EmittedKernel> EmitStages(std::string name, const std::vector<LoopProgram>& programs,
                                         const CDialect& dialect, const EmitOptions& options);

}  // namespace kiln::graph
