#include "client/graph/program/loop_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

using Axes = std::vector<int>;

Axes UnionOf(const Axes& one, const Axes& two) {
  Axes both;
  std::ranges::set_union(one, two, std::back_inserter(both));
  return both;
}

Axes AxesOf(const LoopProgram& program, const Instruction& instruction,
            const std::vector<Axes>& earlier) {
  if (instruction.opcode == Opcode::kAxis) {
    const bool is_inner = program.axes[static_cast<size_t>(instruction.axis)].is_inner;
    return is_inner ? Axes{instruction.axis} : Axes{};
  }
  Axes axes;
  for (const int operand : instruction.operands) {
    axes = UnionOf(axes, earlier[static_cast<size_t>(operand)]);
  }
  if (instruction.opcode != Opcode::kReduce) return axes;
  std::erase_if(axes, [&](int axis) { return std::ranges::count(instruction.axes, axis) > 0; });
  return axes;
}

std::string NumberText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  return fmt::format("{}", number);
}

std::string Where(const Instruction& instruction, size_t mask) {
  if (instruction.operands.size() <= mask) return "";
  return fmt::format(" where %{}", instruction.operands[mask]);
}

std::string_view StoreText(StoreKind kind) {
  switch (kind) {
    case StoreKind::kPlain:
      return "=";
    case StoreKind::kAtomicAdd:
      return "atomic +=";
    case StoreKind::kAtomicMinimum:
      return "atomic min=";
    case StoreKind::kAtomicMaximum:
      return "atomic max=";
  }
  return "?";
}

std::string BodyText(const LoopProgram& program, const Instruction& instruction) {
  const auto& operands = instruction.operands;
  const auto buffer = [&] { return program.buffers[static_cast<size_t>(instruction.buffer)].name; };
  switch (instruction.opcode) {
    case Opcode::kConstant:
      if (IsFloat(instruction.type)) return NumberText(instruction.number);
      return fmt::format("{}", instruction.integer);
    case Opcode::kSize:
      return fmt::format("size {}", instruction.size.ToString(program.symbols));
    case Opcode::kAxis:
      return fmt::format("axis {}", instruction.axis);
    case Opcode::kLoad:
      return fmt::format("load {}[%{}]{}", buffer(), operands[0], Where(instruction, 1));
    case Opcode::kStore:
      return fmt::format("store {}[%{}] {} %{}{}", buffer(), operands[0],
                         StoreText(instruction.store), operands[1], Where(instruction, 2));
    case Opcode::kReduce:
      return fmt::format("{} %{} over {}", NameOf(instruction.reduction), operands[0],
                         fmt::join(instruction.axes, ", "));
    default:
      return fmt::format("{} %{}", FactsOf(instruction.opcode).name, fmt::join(operands, ", %"));
  }
}

}  // namespace

std::vector<std::vector<int>> InnerAxesOf(const LoopProgram& program) {
  std::vector<Axes> all;
  all.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    all.push_back(AxesOf(program, instruction, all));
  }
  return all;
}

int LastOuterAxis(const LoopProgram& program) {
  int last = -1;
  for (size_t axis = 0; axis < program.axes.size(); ++axis) {
    const bool is_long = program.axes[axis].extent != Size(1);
    if (!program.axes[axis].is_inner && is_long) last = static_cast<int>(axis);
  }
  return last;
}

std::string ToText(const LoopProgram& program) {
  std::string text = program.name + "\n";
  for (const Buffer& buffer : program.buffers) {
    text += fmt::format("  {} {}: {}\n", buffer.is_written ? "output" : "input", buffer.name,
                        FactsOf(buffer.type).name);
  }
  for (size_t i = 0; i < program.axes.size(); ++i) {
    text += fmt::format("  {} axis {}: {}\n", program.axes[i].is_inner ? "inner" : "outer", i,
                        program.axes[i].extent.ToString(program.symbols));
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const std::string result = instruction.opcode == Opcode::kStore ? "" : fmt::format("%{} = ", i);
    text += fmt::format("  {}{} : {}\n", result, BodyText(program, instruction),
                        FactsOf(instruction.type).name);
  }
  return text;
}

}  // namespace kiln::graph
