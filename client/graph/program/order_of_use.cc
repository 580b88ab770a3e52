#include "client/graph/program/order_of_use.h"

#include <utility>

namespace kiln::graph {

LoopProgram InOrderOfUse(LoopProgram program) {
  const std::vector<Instruction> made = std::move(program.instructions);
  std::vector<int> numbers(made.size(), -1);  // new ones, by old ones
  std::vector<Instruction> ordered;
  const auto add = [&](int number) {
    Instruction instruction = made[static_cast<size_t>(number)];
    for (int& operand : instruction.operands) operand = numbers[static_cast<size_t>(operand)];
    numbers[static_cast<size_t>(number)] = static_cast<int>(ordered.size());
    ordered.push_back(std::move(instruction));
  };
  const auto is_store = [](const Instruction& each) { return each.opcode == Opcode::kStore; };
  // Each instruction behind its operands, without recursion: chains are as long as sections.
  const auto visit = [&](int root) {
    std::vector<std::pair<int, size_t>> open = {{root, 0}};  // and how many operands are done
    while (!open.empty()) {
      const int number = open.back().first;
      const Instruction& instruction = made[static_cast<size_t>(number)];
      if (numbers[static_cast<size_t>(number)] >= 0) {
        open.pop_back();
      } else if (open.back().second < instruction.operands.size()) {
        const int operand = instruction.operands[open.back().second++];
        open.emplace_back(operand, 0);
      } else {
        add(number);
        open.pop_back();
      }
    }
  };
  // Stores come last: a buffer may be read and written.
  for (const Instruction& each : made) {
    if (!is_store(each)) continue;
    for (const int operand : each.operands) visit(operand);
  }
  for (size_t number = 0; number < made.size(); ++number) {
    if (is_store(made[number])) add(static_cast<int>(number));
  }
  program.instructions = std::move(ordered);
  return program;
}

}  // namespace kiln::graph
