// Kernels of programs, for those of a plan.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/compile/planned_kernels.h"

namespace kiln::graph {

// RESOURCE_EXHAUSTED: there are more than kParametersMax.
[[nodiscard]] absl::Status CheckParameters(size_t parameters);

// `symbols`: with the segment's names. NOT_FOUND: why no compiler can write them.
// RESOURCE_EXHAUSTED: one has too many parameters.
[[nodiscard]] absl::StatusOr<std::vector<PlannedKernel>> KernelsOfPrograms(
    std::vector<LoopProgram> programs, const CompileConfig& config, const PlanConfig& plan_config,
    const std::vector<Symbol>& symbols);

}  // namespace kiln::graph
