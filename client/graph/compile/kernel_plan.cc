#include "client/graph/compile/kernel_plan.h"

#include <fmt/format.h>

#include <utility>

#include "client/graph/compile/compiler_choice.h"
#include "client/graph/compile/section_groups.h"

namespace kiln::graph {

absl::StatusOr<KernelPlan> KernelPlan::Make(Segment segment, PlanConfig plan_config,
                                            CompileConfig compile_config, ChoiceLog log) {
  plan_config.multiplies_tiles = MultipliesTiles(compile_config);
  auto plan = MakePlan(segment, plan_config);
  if (!plan.ok()) return plan.status();
  return Of(std::move(segment), *std::move(plan), std::move(plan_config), std::move(compile_config),
            std::move(log));
}

absl::StatusOr<KernelPlan> KernelPlan::Of(Segment segment, Plan plan, PlanConfig plan_config,
                                          CompileConfig compile_config, ChoiceLog log) {
  GroupSections(segment, plan_config, compile_config, plan);
  auto kernels = KernelsOf(segment, plan, compile_config, plan_config);
  if (!kernels.ok()) return kernels.status();
  KernelPlan made;
  made.segment_ = std::move(segment);
  made.plan_config_ = std::move(plan_config);
  made.compile_config_ = std::move(compile_config);
  made.log_ = std::move(log);
  made.plan_ = std::move(plan);
  made.kernels_ = *std::move(kernels);
  made.AddSteps();
  made.LogChoices(0);
  return made;
}

void KernelPlan::AddSteps() {
  steps_.clear();
  step_of_section_.assign(plan_.sections.size(), -1);
  const std::vector<int> joined = plan_.JoinedGroups();
  for (const Plan::Step& step : plan_.order) {
    const auto number = static_cast<size_t>(step.number);
    const int group = step.is_section ? joined[number] : -1;
    if (group >= 0 && plan_.groups[static_cast<size_t>(group)].sections.front() != step.number) {
      step_of_section_[number] = static_cast<int>(steps_.size()) - 1;
      steps_.back().operation = plan_.sections[number].root;
    } else if (step.is_section) {
      step_of_section_[number] = static_cast<int>(steps_.size());
      steps_.push_back({.operation = plan_.sections[number].root});
    } else {
      const Refusal& refusal = plan_.refusals[number];
      steps_.push_back(
          {.is_engines = true, .operation = refusal.operation, .reason = refusal.reason});
    }
  }
  // Kernels of one section are neighbours.
  for (size_t kernel = kernels_.size(); kernel-- > 0;) {
    const int step = step_of_section_[static_cast<size_t>(kernels_[kernel].section)];
    if (step < 0 || (kernels_[kernel].group >= 0 && kernels_[kernel].is_dropped)) continue;
    steps_[static_cast<size_t>(step)].first_kernel = static_cast<int>(kernel);
    ++steps_[static_cast<size_t>(step)].kernels;
  }
}

int KernelPlan::StepOf(int kernel) const {
  const PlannedKernel& planned = kernels_[static_cast<size_t>(kernel)];
  return planned.is_dropped ? -1 : step_of_section_[static_cast<size_t>(planned.section)];
}

std::string KernelPlan::Explanation() const {
  std::string text = Explain(segment_, plan_);
  for (const KernelStep& step : steps_) {
    for (int i = step.first_kernel; i < step.first_kernel + step.kernels; ++i) {
      const PlannedKernel& kernel = kernels_[static_cast<size_t>(i)];
      if (!kernel.is_dropped) text += graph::Explain(kernel);
    }
  }
  return text;
}

std::string KernelPlan::ChoiceOf(size_t kernel) const {
  const PlannedKernel& chosen = kernels_[kernel];
  return fmt::format("kernel {} of section {}, {}, by {}: {}", kernel, chosen.section,
                     chosen.kernel.entry, NameOf(chosen.compiler), chosen.why);
}

void KernelPlan::Log(const std::string& line) const {
  if (log_) log_(fmt::format("{} for {}: {}", segment_.name, compile_config_.target, line));
}

void KernelPlan::LogChoices(size_t first_kernel) const {
  for (size_t kernel = first_kernel; log_ && kernel < kernels_.size(); ++kernel) {
    if (StepOf(static_cast<int>(kernel)) >= 0) Log(ChoiceOf(kernel));
  }
}

absl::Status KernelPlan::UseNextCompiler(int kernel, std::string_view why) {
  PlannedKernel& planned = kernels_[static_cast<size_t>(kernel)];
  if (StepOf(kernel) < 0) {
    return absl::NotFoundError(
        fmt::format("kernel {} ({}): it need not be compiled", kernel, planned.kernel.entry));
  }
  if (planned.group >= 0) {
    const size_t first = kernels_.size();
    Log(fmt::format("kernel {} is separated into its sections: {}", planned.kernel.entry, why));
    absl::Status status = SeparateGroup(segment_, plan_, kernels_, static_cast<size_t>(kernel),
                                        compile_config_, plan_config_, why);
    AddSteps();
    LogChoices(first);
    return status;
  }
  absl::Status next = graph::UseNextCompiler(planned, compile_config_, why);
  const std::string reason(next.message());
  if (next.ok()) {
    Log(ChoiceOf(static_cast<size_t>(kernel)));
  } else if (absl::IsNotFound(next) && !planned.split.empty()) {
    planned.is_dropped = true;
    Log(fmt::format("kernel {} ({}) is dropped: {}", planned.kernel.entry, planned.split, reason));
  } else if (absl::IsNotFound(next)) {
    GiveToEngine(plan_, {{planned.section, reason}});
    AddSteps();
    Log(fmt::format("section {} is the engine's: {}", planned.section, reason));
  }
  return next;
}

}  // namespace kiln::graph
