// The steps that run in place of a segment, as JSON: docs/graph.md has the fields.
#pragma once

#include <string>

#include "client/cli/graph/target_plan.h"
#include "client/cli/output/json.h"

namespace kiln::cli {

// "2-kiln_softmax_3", with several targets "2-kiln_softmax_3.cuda-90": the kernel's number in the
// plan, and its entry point.
std::string KernelName(const TargetPlan& plan, size_t kernel, bool has_other_targets);

// One target's steps.
Json StepsJson(const graph::Segment& segment, const TargetPlan& plan, bool has_other_targets);

}  // namespace kiln::cli
