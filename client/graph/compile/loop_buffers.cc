#include "client/graph/compile/loop_buffers.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace kiln::graph {

void DropUnusedBuffers(LoopProgram& program) {
  const auto uses_memory = [](const Instruction& instruction) {
    return instruction.opcode == Opcode::kLoad || instruction.opcode == Opcode::kStore;
  };
  std::vector<int> places(program.buffers.size(), -1);
  for (const Instruction& instruction : program.instructions) {
    if (uses_memory(instruction)) places[static_cast<size_t>(instruction.buffer)] = 0;
  }
  std::vector<Buffer> used;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) continue;
    places[i] = static_cast<int>(used.size());
    used.push_back(std::move(program.buffers[i]));
  }
  program.buffers = std::move(used);
  for (Instruction& instruction : program.instructions) {
    if (uses_memory(instruction)) {
      instruction.buffer = places[static_cast<size_t>(instruction.buffer)];
    }
  }
}

void NameByPlace(std::vector<Symbol>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) symbols[i].name = fmt::format("s{}", i);
}

std::vector<int> TakeValues(LoopProgram& program) {
  std::vector<int> values;
  for (Buffer& buffer : program.buffers) {
    values.push_back(std::stoi(buffer.name.substr(1)));  // "v12"
    buffer.name = fmt::format("x{}", values.size() - 1);
  }
  NameByPlace(program.symbols);
  return values;
}

}  // namespace kiln::graph
