// The kernels of a plan: of each section, or of a group of sections.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "client/graph/compile/compiler_choice.h"
#include "client/graph/compile/program_kernels.h"
#include "client/graph/compile/section_groups.h"
#include "client/graph/emit/cuda.h"
#include "client/graph/emit/stages.h"
#include "client/graph/operators/constant_elements.h"
#include "client/graph/plan/section_form.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::StatusOr<PlannedKernel> KernelOfGroup(const Segment& segment, const Plan& plan, int number,
                                            const CompileConfig& config) {
  const SectionGroup& group = plan.groups[static_cast<size_t>(number)];
  auto made = LowerGroup(segment, plan, group);
  if (!made.ok()) return made.status();
  KILN_RETURN_IF_ERROR(CheckParameters(made->values.size() + segment.symbols.size()));
  auto emitted = EmitCudaStages(fmt::format("kiln_{}_stages", made->programs.size()),
                                made->programs, {.fast_math = config.fast_math});
  if (!emitted.ok()) return emitted.status();
  PlannedKernel kernel;
  kernel.kernel = *std::move(emitted);
  kernel.section = group.sections.front();
  kernel.group = number;
  kernel.buffers = std::move(made->values);
  kernel.why = "kernels with grid barriers are CUDA C++";
  kernel.program = CommonParameters(made->programs);
  return kernel;
}

// Kernels of the sections that a plan has had: layers of a model are alike.
class KnownSections {
 public:
  // Their buffers are places in `form.values`. Null: no such section was added.
  const std::vector<PlannedKernel>* Find(const Segment& segment, const SectionForm& form) const {
    const auto those = known_.find(form.text);
    if (those == known_.end()) return nullptr;
    for (const Known& known : those->second) {
      const bool has_its_constants = std::ranges::all_of(known.constants, [&](const auto& each) {
        const auto& bytes = ValueAt(segment, form, each.first).bytes;
        return bytes == each.second || *bytes == *each.second;
      });
      if (has_its_constants) return &known.kernels;
    }
    return nullptr;
  }

  // `asked`: constants of the segment, whose elements the kernels were written with.
  const std::vector<PlannedKernel>& Add(const Segment& segment, SectionForm form,
                                        const std::vector<const Value*>& asked,
                                        std::vector<PlannedKernel> kernels) {
    const auto place_of = [&](int value) {
      return static_cast<int>(std::ranges::lower_bound(form.values, value) - form.values.begin());
    };
    Known known{.kernels = std::move(kernels)};
    for (PlannedKernel& kernel : known.kernels) {
      for (int& buffer : kernel.buffers) buffer = place_of(buffer);
    }
    for (const Value* value : asked) {
      known.constants[place_of(static_cast<int>(value - segment.values.data()))] = value->bytes;
    }
    return known_[std::move(form.text)].emplace_back(std::move(known)).kernels;
  }

 private:
  struct Known {
    std::vector<PlannedKernel> kernels;
    std::map<int, std::shared_ptr<const std::string>> constants = {};  // by place
  };

  static const Value& ValueAt(const Segment& segment, const SectionForm& form, int place) {
    return segment.values[static_cast<size_t>(form.values[static_cast<size_t>(place)])];
  }

  std::unordered_map<std::string, std::vector<Known>> known_;  // by the text of their form
};

class PlanKernels {
 public:
  PlanKernels(const Segment& segment, Plan& plan, const CompileConfig& config,
              const PlanConfig& plan_config)
      : segment_(segment), plan_(plan), config_(config), plan_config_(plan_config) {}

  absl::Status Add(int section) {
    const Section& facts = plan_.sections[static_cast<size_t>(section)];
    const int root = facts.root;
    SectionForm form = FormOf(segment_, facts);
    if (const auto* known = known_.Find(segment_, form)) {
      for (const PlannedKernel& kernel : *known) AddLike(kernel, section, form.values);
      return absl::OkStatus();
    }
    const AskedConstants asked;
    auto programs = LowerSection(segment_, facts);
    if (!programs.ok()) {
      refused_.emplace(section, std::string(programs.status().message()));
      return absl::OkStatus();
    }
    auto those = KernelsOfPrograms(*std::move(programs), config_, plan_config_, segment_.symbols);
    if (absl::IsNotFound(those.status()) && config_.forced) {
      return absl::UnimplementedError(fmt::format(
          "{} ({}): {} cannot write it: {}", segment_.operations[static_cast<size_t>(root)].name,
          root, NameOf(*config_.forced), std::string(those.status().message())));
    }
    if (absl::IsNotFound(those.status()) || absl::IsResourceExhausted(those.status())) {
      refused_.emplace(section, std::string(those.status().message()));
      return absl::OkStatus();
    }
    if (!those.ok()) return those.status();
    const std::vector<int> values = form.values;
    for (const PlannedKernel& kernel :
         known_.Add(segment_, std::move(form), asked.values(), *std::move(those))) {
      AddLike(kernel, section, values);
    }
    return absl::OkStatus();
  }

  // A launch for each section where the group's kernel cannot be written.
  absl::Status AddGroup(int number) {
    auto kernel = KernelOfGroup(segment_, plan_, number, config_);
    if (!kernel.ok()) return AddEach(number, std::string(kernel.status().message()));
    kernels_.push_back(*std::move(kernel));
    return absl::OkStatus();
  }
  absl::Status AddEach(int number, std::string why) {
    SectionGroup& group = plan_.groups[static_cast<size_t>(number)];
    group.is_joined = false;
    group.reason = std::move(why);
    for (const int section : group.sections) KILN_RETURN_IF_ERROR(Add(section));
    return absl::OkStatus();
  }

  std::vector<PlannedKernel> Finish() && {
    GiveToEngine(plan_, refused_);
    return std::move(kernels_);
  }

 private:
  // `known`: its buffers are places in the section's values.
  void AddLike(const PlannedKernel& known, int section, const std::vector<int>& values) {
    PlannedKernel& kernel = kernels_.emplace_back(known);
    kernel.section = section;
    for (int& buffer : kernel.buffers) buffer = values[static_cast<size_t>(buffer)];
  }

  const Segment& segment_;
  Plan& plan_;
  const CompileConfig& config_;
  const PlanConfig& plan_config_;
  KnownSections known_;
  std::vector<PlannedKernel> kernels_;
  std::map<int, std::string> refused_;  // sections
};

}  // namespace

absl::StatusOr<std::vector<PlannedKernel>> KernelsOf(const Segment& segment, Plan& plan,
                                                     const CompileConfig& config,
                                                     const PlanConfig& plan_config) {
  if (const auto usable = UsableCompilers(config); !usable.ok()) return usable.status();
  PlanKernels kernels(segment, plan, config, plan_config);
  const std::vector<int> joined = plan.JoinedGroups();
  for (const Plan::Step& step : plan.order) {
    if (!step.is_section) continue;
    const int group = joined[static_cast<size_t>(step.number)];
    absl::Status status;
    if (group < 0) {
      status = kernels.Add(step.number);
    } else if (plan.groups[static_cast<size_t>(group)].sections.front() == step.number) {
      status = kernels.AddGroup(group);
    }
    if (!status.ok()) return status;
  }
  return std::move(kernels).Finish();
}

absl::Status SeparateGroup(const Segment& segment, Plan& plan, std::vector<PlannedKernel>& kernels,
                           size_t number, const CompileConfig& config,
                           const PlanConfig& plan_config, std::string_view why) {
  PlanKernels separate(segment, plan, config, plan_config);
  kernels[number].is_dropped = true;
  const int group = kernels[number].group;
  const absl::Status status = separate.AddEach(group, std::string(why));
  if (!status.ok()) {
    std::map<int, std::string> reasons;
    for (const int section : plan.groups[static_cast<size_t>(group)].sections) {
      reasons.emplace(section, status.message());
    }
    GiveToEngine(plan, reasons);
    return absl::NotFoundError(status.message());
  }
  std::ranges::move(std::move(separate).Finish(), std::back_inserter(kernels));
  return absl::OkStatus();
}

}  // namespace kiln::graph
