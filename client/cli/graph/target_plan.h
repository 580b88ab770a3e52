// A file with a segment (docs/graph.md) or an ONNX model, as kernels for targets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/graph/compile/planned_kernels.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// What the command line says of planning.
struct GraphFlags {
  std::vector<std::string> targets;
  std::string compiler;  // "": the best for each kernel
  std::vector<std::string> off;
  bool keeps_small = false;
  bool no_fusion = false;
  bool no_splits = false;
  bool takes_views = false;
  bool fast_math = false;
  std::string barriers = "score";
  std::vector<std::string> dimensions;  // of an ONNX model: "batch=1..64:16%8"
};

// What becomes of a segment for one target.
struct TargetPlan {
  graph::CompileConfig config;
  graph::PlanConfig plan_config;
  std::vector<graph::Compiler> absent;  // would make code for the target; no toolchain is there
  std::string key;
  graph::Plan plan;
  std::vector<graph::PlannedKernel> kernels;
};

// A file that begins with "{" is a segment, another one an ONNX model. Errors of reading the file;
// INVALID_ARGUMENT: it is neither, or cannot be planned.
[[nodiscard]] absl::StatusOr<graph::Segment> ReadGraph(const std::string& path,
                                                       const GraphFlags& flags);

[[nodiscard]] absl::StatusOr<graph::PlanConfig> PlanConfigOf(const GraphFlags& flags);

// A plan for each of the flags' targets. `toolchains` are those of the daemon; null: every compiler
// counts as there. FAILED_PRECONDITION: none of them makes code for a target. Otherwise errors are
// those of KernelPlans, and a target that is refused is one.
[[nodiscard]] absl::StatusOr<std::vector<TargetPlan>> PlansFor(
    const graph::Segment& segment, const GraphFlags& flags,
    const v1::ListToolchainsResponse* toolchains);

// The kernel as anybody's request. "" in the contract's other fields: the daemon's defaults.
[[nodiscard]] absl::StatusOr<v1::CompileRequest> RequestOf(const graph::PlannedKernel& kernel,
                                                           const std::string& target);

}  // namespace kiln::cli
