#include "client/graph/compile/kernel_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "client/graph/compile/compiler_choice.h"
#include "client/launch/architecture.h"

namespace kiln::graph {
namespace {

// The backend that such an architecture is of.
std::string_view BackendOf(std::string_view architecture) {
  if (architecture.starts_with("gfx")) return "hip";
  return architecture.find('.') == std::string_view::npos && !architecture.empty() ? "cuda"
                                                                                   : "spirv";
}

// Whether the device runs what a plan for the target has, kernels from Triton among it.
bool IsFor(const CompileTarget& target, std::string_view device) {
  return target.backend == BackendOf(device) &&
         launch::Runs(target.backend, target.architecture, /*is_triton=*/true, device);
}

// The larger it is, the more of a device that runs the target is made use of.
std::pair<int, int> NumberOf(const CompileTarget& target) {
  if (target.backend == "cuda") return {target.capability, 0};
  return target.backend == "spirv" ? launch::ParseSpirvVersion(target.architecture)
                                   : std::pair{0, 0};
}

absl::Status CheckTargets(const std::vector<CompileConfig>& configs) {
  if (configs.empty()) return absl::InvalidArgumentError("plans need a target at least");
  std::set<std::string_view> known;
  for (const CompileConfig& config : configs) {
    if (const auto target = ParseTarget(config.target); !target.ok()) return target.status();
    if (known.insert(config.target).second) continue;
    return absl::InvalidArgumentError(fmt::format("target {} is named twice", config.target));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> FindTarget(const std::vector<std::string>& targets,
                                  std::string_view architecture) {
  std::optional<size_t> found;
  std::pair<int, int> most;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto target = ParseTarget(targets[i]);
    if (!target.ok()) return target.status();
    if (!IsFor(*target, architecture) || (found && NumberOf(*target) <= most)) continue;
    found = i;
    most = NumberOf(*target);
  }
  if (found) return *found;
  return absl::NotFoundError(fmt::format("the device is {}:{}, and there are plans for {}",
                                         BackendOf(architecture), architecture,
                                         fmt::join(targets, ", ")));
}

absl::StatusOr<KernelPlans> KernelPlans::Make(const Segment& segment, PlanConfig plan_config,
                                              const std::vector<CompileConfig>& configs,
                                              const ChoiceLog& log) {
  if (absl::Status status = CheckTargets(configs); !status.ok()) return status;
  KernelPlans made;
  std::array<std::optional<Plan>, 2> analyses;  // with tiles and without
  for (const CompileConfig& config : configs) {
    if (const auto usable = UsableCompilers(config); !usable.ok()) {
      made.refusals_.push_back({config.target, usable.status()});
      continue;
    }
    plan_config.multiplies_tiles = MultipliesTiles(config);
    std::optional<Plan>& analysis = analyses[plan_config.multiplies_tiles ? 1 : 0];
    if (!analysis) {
      auto plan = MakePlan(segment, plan_config);
      if (!plan.ok()) return plan.status();
      analysis = *std::move(plan);
    }
    auto plan = KernelPlan::Of(segment, *analysis, plan_config, config, log);
    if (!plan.ok()) return plan.status();
    made.plans_.push_back(*std::move(plan));
  }
  if (!made.plans_.empty()) return made;
  if (configs.size() == 1) return made.refusals_.front().why;
  std::string reasons;
  for (const Refusal& refusal : made.refusals_) {
    reasons += (reasons.empty() ? "" : "; ") + std::string(refusal.why.message());
  }
  return absl::InvalidArgumentError("there is a plan for none of the targets: " + reasons);
}

}  // namespace kiln::graph
