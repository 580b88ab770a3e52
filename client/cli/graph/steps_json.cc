#include "client/cli/graph/steps_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace kiln::cli {
namespace {

using graph::PlannedKernel;

class Steps {
 public:
  Steps(const graph::Segment& segment, const TargetPlan& plan, bool has_other_targets)
      : segment_(segment), plan_(plan), has_other_targets_(has_other_targets) {
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      const PlannedKernel& kernel = plan.kernels[i];
      if (!kernel.is_dropped) of_section_[kernel.section].push_back(i);
    }
  }

  Json All() const {
    Json steps = Json::array();
    const std::vector<int> joined = plan_.plan.JoinedGroups();
    for (const graph::Plan::Step& step : plan_.plan.order) {
      const int group = step.is_section ? joined[static_cast<size_t>(step.number)] : -1;
      if (!step.is_section) {
        steps.push_back(RefusalJson(step.number));
      } else if (group < 0) {
        steps.push_back(SectionJson(step.number));
      } else if (of_section_.contains(step.number)) {
        steps.push_back(GroupJson(plan_.plan.groups[static_cast<size_t>(group)]));
      }
    }
    return steps;
  }

 private:
  const std::string& NameOf(int value) const {
    return segment_.values[static_cast<size_t>(value)].name;
  }

  Json RefusalJson(int number) const {
    const graph::Refusal& refusal = plan_.plan.refusals[static_cast<size_t>(number)];
    return {{"operation", refusal.operation},
            {"op", segment_.operations[static_cast<size_t>(refusal.operation)].name},
            {"reason", refusal.reason}};
  }

  Json SectionJson(int number) const {
    const graph::Section& section = plan_.plan.sections[static_cast<size_t>(number)];
    Json json{{"section", number},
              {"type", graph::FactsOf(section.type).name},
              {"operations", section.operations}};
    json["kernels"] = Json::array();
    for (const size_t kernel : of_section_.at(number))
      json["kernels"].push_back(KernelJson(kernel));
    return json;
  }

  // The first section, with the operations of all.
  Json GroupJson(const graph::SectionGroup& group) const {
    Json json = SectionJson(group.sections.front());
    json["type"] = "group";
    json["operations"] = Json::array();
    for (const int number : group.sections) {
      for (const int each : plan_.plan.sections[static_cast<size_t>(number)].operations) {
        json["operations"].push_back(each);
      }
    }
    return json;
  }

  static Json GridJson(const std::vector<graph::GridFactor>& factors,
                       const std::vector<graph::Symbol>& symbols) {
    Json json = Json::array();
    for (const graph::GridFactor& factor : factors) {
      json.push_back({{"extent", factor.extent.ToString(symbols)}, {"tile", factor.tile}});
    }
    return json;
  }

  Json KernelJson(size_t number) const {
    const PlannedKernel& kernel = plan_.kernels[number];
    Json json{{"name", KernelName(plan_, number, has_other_targets_)},
              {"entry", kernel.kernel.entry},
              {"compiler", graph::NameOf(kernel.compiler)},
              {"why", kernel.why},
              {"threads", kernel.kernel.threads}};
    if (!kernel.split.empty()) json["for"] = PartJson(kernel);
    if (kernel.num_warps > 0) json["num_warps"] = kernel.num_warps;
    json["grid"] = GridJson(kernel.kernel.grid, segment_.symbols);
    if (!kernel.kernel.stages.empty()) {
      json["stages"] = GridJson(kernel.kernel.stages, segment_.symbols);
    }
    json["buffers"] = Json::array();
    for (const int value : kernel.buffers) json["buffers"].push_back(NameOf(value));
    return json;
  }

  // The ranges of a variant that are not the segment's.
  Json PartJson(const PlannedKernel& kernel) const {
    Json part = Json::array();
    for (size_t i = 0; i < segment_.symbols.size(); ++i) {
      const graph::Symbol& whole = segment_.symbols[i];
      const graph::Symbol& narrow = kernel.program.symbols[i];
      if (narrow.min == whole.min && narrow.max == whole.max &&
          narrow.multiple_of == whole.multiple_of) {
        continue;
      }
      part.push_back({{"symbol", whole.name},
                      {"min", narrow.min},
                      {"max", narrow.max},
                      {"multiple_of", narrow.multiple_of}});
    }
    return part;
  }

  const graph::Segment& segment_;
  const TargetPlan& plan_;
  const bool has_other_targets_;
  std::map<int, std::vector<size_t>> of_section_;  // numbers of kernels
};

}  // namespace

std::string KernelName(const TargetPlan& plan, size_t kernel, bool has_other_targets) {
  std::string name = fmt::format("{}-{}", kernel, plan.kernels[kernel].kernel.entry);
  if (has_other_targets) {
    std::string target = plan.config.target;
    std::ranges::replace(target, ':', '-');
    name += "." + target;
  }
  return name;
}

Json StepsJson(const graph::Segment& segment, const TargetPlan& plan, bool has_other_targets) {
  Json json{{"target", plan.config.target}, {"key", plan.key}};
  json["absent"] = Json::array();
  for (const graph::Compiler compiler : plan.absent) {
    json["absent"].push_back(graph::NameOf(compiler));
  }
  json["symbols"] = Json::array();
  for (const graph::Symbol& symbol : segment.symbols) json["symbols"].push_back(symbol.name);
  json["steps"] = Steps(segment, plan, has_other_targets).All();
  return json;
}

}  // namespace kiln::cli
