// Which sections one kernel computes, with grid barriers between them, and what that kernel is.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/compile/compiler.h"
#include "client/graph/plan/plan.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Fills plan.groups: neighbours in plan.order that compute no products, and what is said for or
// against one kernel of them. The score decides, unless the configuration does.
void GroupSections(const Segment& segment, const PlanConfig& plan_config,
                   const CompileConfig& config, Plan& plan);

// The programs of a group's sections, and the value in each buffer. Buffers and symbols are
// numbered across the group.
struct GroupPrograms {
  std::vector<LoopProgram> programs;  // buffers and symbols are numbered over all: x0, s0
  std::vector<int> values;            // of the buffers, in the order of the kernel's parameters
};

[[nodiscard]] absl::StatusOr<GroupPrograms> LowerGroup(const Segment& segment, const Plan& plan,
                                                       const SectionGroup& group);

}  // namespace kiln::graph
