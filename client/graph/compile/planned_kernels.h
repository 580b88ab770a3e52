// The kernels of a plan: for each a compiler that suits it, and the text for that compiler.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/compile/compiler.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/plan/plan.h"
#include "client/graph/program/loop_program.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

struct PlannedKernel {
  EmittedKernel kernel;
  Compiler compiler = Compiler::kCuda;
  int num_warps = 0;           // of Triton; 0: another compiler
  int section = 0;             // in plan.sections; of a group the first one
  int group = -1;              // in plan.groups: the kernel computes all its sections
  std::vector<int> buffers;    // values, in the order of the kernel's parameters
  std::vector<Compiler> left;  // to be tried next, best first
  std::string why;             // this compiler: "no loop: a PTX template needs ptxas alone"
  LoopProgram program;         // of a group parameters alone
  // Not empty: a variant. Within the ranges of its program's symbols it does the work of the next
  // kernel that is none, and says why there is one.
  std::string split = {};
  // A variant that no compiler could compile, or the kernel of a group that has been separated.
  bool is_dropped = false;
};

// In the order of launches, variants before what they may replace; a kernel for each joined group.
// What no compiler can write becomes the engine's, in `plan`. INVALID_ARGUMENT: the target is
// unknown, or none of the compilers makes code for it. UNIMPLEMENTED: the forced compiler cannot
// write a kernel; the operation and the reason are named.
[[nodiscard]] absl::StatusOr<std::vector<PlannedKernel>> KernelsOf(const Segment& segment,
                                                                   Plan& plan,
                                                                   const CompileConfig& config,
                                                                   const PlanConfig& plan_config);

// Writes the kernel for the next compiler, after a failure that `why` tells in a few words.
// NOT_FOUND: there is none that can; the kernel is as it was, and the section is the engine's
// (GiveToEngine).
[[nodiscard]] absl::Status UseNextCompiler(PlannedKernel& kernel, const CompileConfig& config,
                                           std::string_view why);

// After a failure of a group's kernel that `why` tells: drops it, and adds kernels for each of the
// group's sections. NOT_FOUND: there can be none, and the sections are the engine's.
[[nodiscard]] absl::Status SeparateGroup(const Segment& segment, Plan& plan,
                                         std::vector<PlannedKernel>& kernels, size_t number,
                                         const CompileConfig& config, const PlanConfig& plan_config,
                                         std::string_view why);

// A line for each kernel: its compiler, why that one, and which would be next.
std::string Explain(const PlannedKernel& kernel);
std::string Explain(const std::vector<PlannedKernel>& kernels);

// 64 hex digits over what decides the code: operators, types, ranges, layout, configuration and
// target. Names do not, nor do elements of constants, unless they are computed with while a kernel
// is written. REQUIRES: Check(segment) is OK.
std::string PlanKey(const Segment& segment, const PlanConfig& plan_config,
                    const CompileConfig& config);

}  // namespace kiln::graph
