// The requests that take the place of a kernel that did not compile.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "client/cli/graph/target_plan.h"

namespace kiln::cli {

// Numbers of kernels: the same one by its next compiler, or those of each section of a group. None:
// its section has become the engine's, or it is dropped. Says which on `err`, for people.
std::vector<size_t> KernelsInPlaceOf(const graph::Segment& segment, TargetPlan& plan, size_t number,
                                     const std::string& name, std::ostream& err);

}  // namespace kiln::cli
