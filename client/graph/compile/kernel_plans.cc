#include "client/graph/compile/kernel_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "client/graph/compile/compiler_choice.h"

namespace kiln::graph {
namespace {

// The backend that such an architecture is of.
std::string_view BackendOf(std::string_view architecture) {
  if (architecture.starts_with("gfx")) return "hip";
  return architecture.find('.') == std::string_view::npos && !architecture.empty() ? "cuda"
                                                                                   : "spirv";
}

// 0 and more: how far the device is beyond the target, of which it runs all code. "1.4" is 104.
std::optional<int> Distance(const CompileTarget& target, std::string_view device) {
  if (target.backend != BackendOf(device)) return std::nullopt;
  if (target.backend == "hip") {
    const bool is_it = target.architecture == device.substr(0, device.find(':'));
    return is_it ? std::optional(0) : std::nullopt;
  }
  const auto number_of = [](std::string_view text) {
    int whole = 0;
    int part = 0;
    const char* const end = text.data() + text.size();
    const char* const dot = std::from_chars(text.data(), end, whole).ptr;
    if (dot != end && *dot == '.') std::from_chars(dot + 1, end, part);
    return dot != end && *dot == '.' ? 100 * whole + part : whole;
  };
  const int here = number_of(device);
  const int wanted = number_of(target.architecture);
  if (target.backend == "spirv")
    return wanted <= here ? std::optional(here - wanted) : std::nullopt;
  // Triton's kernels and those for 90a run on their own architecture alone.
  if (wanted == here) return 0;
  const bool is_of_family = wanted < 90 && wanted / 10 == here / 10 && wanted < here;
  return is_of_family ? std::optional(here - wanted) : std::nullopt;
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
  int least = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto target = ParseTarget(targets[i]);
    if (!target.ok()) return target.status();
    const auto distance = Distance(*target, architecture);
    if (!distance || (found && *distance >= least)) continue;
    found = i;
    least = *distance;
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
