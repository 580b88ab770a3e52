#include "client/graph/emit/triton/axis_use.h"

namespace kiln::graph::triton {

std::vector<std::set<int>> UsedAxes(const LoopProgram& program) {
  std::vector<std::set<int>> used(program.instructions.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (int operand : instruction.operands) {
      const std::set<int>& more = used[static_cast<size_t>(operand)];
      used[i].insert(more.begin(), more.end());
    }
    if (instruction.opcode == Opcode::kAxis) used[i].insert(instruction.axis);
    if (instruction.opcode != Opcode::kReduce) continue;
    for (int axis : instruction.axes) used[i].erase(axis);
  }
  return used;
}

}  // namespace kiln::graph::triton
