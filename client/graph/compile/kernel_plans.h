// A segment's plans for several targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/compile/kernel_plan.h"

namespace kiln::graph {

// What a device runs, of plans for `targets`: the number of the one that is closest to it. A GPU of
// sm_86 runs what is for sm_80. `architecture` is as kiln_launch_device has it: "90",
// "gfx942:sramecc+:xnack-", of SPIR-V the newest version.
// NOT_FOUND: none is for it; the message has the device's target, and those of the plans.
[[nodiscard]] absl::StatusOr<size_t> FindTarget(const std::vector<std::string>& targets,
                                                std::string_view architecture);

// A plan for each target that can have one. What targets have in common is planned once.
class KernelPlans {
 public:
  struct Refusal {
    std::string target;
    absl::Status why;
  };

  // A plan for each of `configs`. A target that none of the compilers makes code for is refused,
  // and no error unless all are. INVALID_ARGUMENT: the segment; no target; what is none, or is
  // named twice; all are refused, each by name.
  [[nodiscard]] static absl::StatusOr<KernelPlans> Make(const Segment& segment,
                                                        PlanConfig plan_config,
                                                        const std::vector<CompileConfig>& configs,
                                                        const ChoiceLog& log = nullptr);

  std::vector<KernelPlan>& plans() { return plans_; }  // in the order of the targets
  const std::vector<KernelPlan>& plans() const { return plans_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }

 private:
  std::vector<KernelPlan> plans_;
  std::vector<Refusal> refusals_;
};

}  // namespace kiln::graph
