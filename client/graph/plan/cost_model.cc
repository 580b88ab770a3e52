#include "client/graph/plan/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kiln::graph {

FusionScore ScoreOf(const FusionFacts& facts, const CostModel& model) {
  const double bytes = facts.producer_elements * facts.bytes_per_element;
  const double again =
      std::max(facts.reads_per_element - (facts.is_factor_of_tiles ? 0.0 : 1.0), 0.0);
  const double computing = again * facts.operations_per_element / model.operations_per_byte;
  const double staging = facts.is_staged ? facts.reads_per_element * model.staged_bytes : 0;
  const double jumped = std::max(model.jump_bytes - facts.bytes_per_element, 0.0);
  const int spilled = std::max(facts.tile_operands - model.tile_operands_max, 0);
  return {.saved = 2 * bytes + model.launch_bytes,  // the write and a read
          .work = facts.producer_elements * (computing + staging),
          .grid = facts.producer_elements * std::max(facts.loads_that_jump, 0) * jumped,
          .registers = facts.producer_elements * spilled * model.spill_bytes};
}

std::string CostsOf(const FusionScore& score) {
  std::string text;
  for (const auto& [name, cost] : {std::pair("work", score.work), std::pair("grid", score.grid),
                                   std::pair("registers", score.registers)}) {
    if (cost > 0) text += fmt::format(", {} -{:.1f} MB", name, cost / 1e6);
  }
  return text;
}

double BarrierScore(size_t sections, double bytes, const CostModel& model) {
  return static_cast<double>(sections - 1) * model.barrier_bytes - bytes;
}

}  // namespace kiln::graph
