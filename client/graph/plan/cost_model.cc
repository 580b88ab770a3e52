#include "client/graph/plan/cost_model.h"

#include <algorithm>

namespace kiln::graph {

double FusionScore(const FusionFacts& facts, const CostModel& model) {
  const double bytes = facts.producer_elements * facts.bytes_per_element;
  // A read of each element, by the consumer; and the write, if nobody else needs it.
  const double saved = bytes * (facts.has_other_readers ? 1 : 2) + model.launch_bytes;
  const double again = std::max(facts.reads_per_element - (facts.has_other_readers ? 0 : 1), 0.0);
  const double work = facts.producer_elements * again * facts.operations_per_element;
  return saved - work / model.operations_per_byte;
}

double BarrierScore(size_t sections, double bytes, const CostModel& model) {
  return static_cast<double>(sections - 1) * model.barrier_bytes - bytes;
}

}  // namespace kiln::graph
