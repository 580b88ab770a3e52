// Runs plans on the interpreter.
#pragma once

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "client/graph/plan/plan.h"
#include "tests/testing/graph/program_interpreter.h"

namespace kiln::graph {

// `memory`: inputs by value; what the plan writes is added. Operations that the plan leaves to the
// engine are run one by one.
absl::Status RunPlan(const Segment& segment, const Plan& plan, const std::vector<int64_t>& symbols,
                     std::map<int, TestBuffer>& memory);

}  // namespace kiln::graph
