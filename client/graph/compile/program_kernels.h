// Kernels of programs, for those of a plan.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/compile/planned_kernels.h"

namespace kiln::graph {

// `symbols`: with the segment's names. NOT_FOUND: why no compiler can write them.
[[nodiscard]] absl::StatusOr<std::vector<PlannedKernel>> KernelsOfPrograms(
    std::vector<LoopProgram> programs, const CompileConfig& config, const PlanConfig& plan_config,
    const std::vector<Symbol>& symbols);

}  // namespace kiln::graph
