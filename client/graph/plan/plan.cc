#include "client/graph/plan/plan.h"

#include <set>
#include <utility>

namespace kiln::graph {

std::optional<GridBarriers> ParseGridBarriers(std::string_view name) {
  if (name == "score") return GridBarriers::kByScore;
  if (name == "always") return GridBarriers::kAlways;
  if (name == "never") return GridBarriers::kNever;
  return std::nullopt;
}

std::vector<int> Plan::JoinedGroups() const {
  std::vector<int> joined(sections.size(), -1);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].is_joined) continue;
    for (const int section : groups[i].sections) {
      joined[static_cast<size_t>(section)] = static_cast<int>(i);
    }
  }
  return joined;
}

void GiveToEngine(Plan& plan, const std::map<int, std::string>& reasons) {
  std::map<int, int> refusals;  // their numbers, by operation
  for (const Refusal& refusal : plan.refusals) {
    refusals.emplace(refusal.operation, static_cast<int>(refusals.size()));
  }
  // An operation of several sections is done once, where the first of them needs it.
  std::set<int> done;
  const std::vector<Plan::Step> before = std::exchange(plan.order, {});
  for (const Plan::Step& step : before) {
    const auto reason = step.is_section ? reasons.find(step.number) : reasons.end();
    if (reason == reasons.end()) {
      if (step.is_section || done.insert(step.number).second) plan.order.push_back(step);
      continue;
    }
    for (const int operation : plan.sections[static_cast<size_t>(step.number)].operations) {
      const auto [refusal, is_new] =
          refusals.emplace(operation, static_cast<int>(plan.refusals.size()));
      if (is_new) plan.refusals.push_back({operation, reason->second});
      std::erase_if(plan.views, [operation = operation](const OutputView& view) {
        return view.operation == operation;  // the engine computes it
      });
      if (done.insert(refusal->second).second) plan.order.push_back({false, refusal->second});
    }
  }
}

}  // namespace kiln::graph
