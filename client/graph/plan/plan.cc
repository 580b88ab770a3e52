#include "client/graph/plan/plan.h"

#include <set>
#include <utility>

namespace kiln::graph {

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
