// Outputs that a plan writes nowhere, since they are elements of other values' memory.
#pragma once

#include <vector>

#include "client/graph/plan/plan.h"

namespace kiln::graph {

std::vector<OutputView> OutputViewsOf(const Segment& segment, const Plan& plan);

}  // namespace kiln::graph
