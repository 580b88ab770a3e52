#include "client/graph/emit/triton/contiguity.h"

#include <algorithm>

#include "client/graph/emit/linear_index.h"

namespace kiln::graph::triton {

bool NeighboursAreOuter(const LoopProgram& program) {
  const int last_outer = LastOuterAxis(program);
  if (last_outer < 0) return false;
  const std::vector<std::vector<int>> inner = InnerAxesOf(program);
  const std::vector<std::optional<LinearIndex>> indexes = LinearIndexesOf(program);
  return std::ranges::any_of(program.instructions, [&](const Instruction& instruction) {
    if (instruction.opcode != Opcode::kLoad && instruction.opcode != Opcode::kStore) return false;
    const auto operand = static_cast<size_t>(instruction.operands[0]);
    const auto& index = indexes[operand];
    const auto is_along = [&](int axis) {
      return index->strides[static_cast<size_t>(axis)] == Size(1);
    };
    return index.has_value() && !inner[operand].empty() && is_along(last_outer) &&
           std::ranges::none_of(inner[operand], is_along);
  });
}

}  // namespace kiln::graph::triton
