// Kernels of programs, for those of a plan.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/compile/planned_kernels.h"

namespace kiln::graph {

// RESOURCE_EXHAUSTED: there are more than kParametersMax.
[[nodiscard]] absl::Status CheckParameters(size_t parameters);

// Kernels of the programs that a plan has had, by all that decides their texts: layers of a model
// are alike.
using KnownKernels = std::unordered_map<std::string, std::vector<PlannedKernel>>;

// `symbols`: with the segment's names. `known`: of one plan. NOT_FOUND: why no compiler can write
// them. RESOURCE_EXHAUSTED: one has too many parameters.
[[nodiscard]] absl::StatusOr<std::vector<PlannedKernel>> KernelsOfPrograms(
    std::vector<LoopProgram> programs, const CompileConfig& config, const PlanConfig& plan_config,
    const std::vector<Symbol>& symbols, KnownKernels& known);

}  // namespace kiln::graph
