#include "client/graph/emit/linear_index.h"

#include <algorithm>
#include <utility>

namespace kiln::graph {
namespace {

using Indexes = std::vector<std::optional<LinearIndex>>;

LinearIndex Constant(Size size, size_t axes) { return {std::move(size), std::vector<Size>(axes)}; }

// Adds `factor` times another index.
LinearIndex Sum(LinearIndex one, const LinearIndex& other, const Size& factor) {
  one.offset += other.offset * factor;
  for (size_t axis = 0; axis < one.strides.size(); ++axis) {
    one.strides[axis] += other.strides[axis] * factor;
  }
  return one;
}

bool IsSize(const LinearIndex& index) {
  return std::ranges::all_of(index.strides, [](const Size& stride) { return stride == Size(0); });
}

std::optional<LinearIndex> Product(const LinearIndex& one, const LinearIndex& other) {
  const bool is_first = IsSize(one);
  if (!is_first && !IsSize(other)) return std::nullopt;
  const Size& factor = is_first ? one.offset : other.offset;
  return Sum(Constant(0, one.strides.size()), is_first ? other : one, factor);
}

bool IsValid(const LinearIndex& index) {
  return index.offset.IsValid() &&
         std::ranges::all_of(index.strides, [](const Size& stride) { return stride.IsValid(); });
}

std::optional<LinearIndex> IndexOf(const Instruction& instruction, size_t axes,
                                   const Indexes& indexes) {
  if (instruction.type != DType::kI64) return std::nullopt;
  switch (instruction.opcode) {
    case Opcode::kConstant:
      return Constant(instruction.integer, axes);
    case Opcode::kSize:
      return Constant(instruction.size, axes);
    case Opcode::kAxis: {
      LinearIndex index = Constant(0, axes);
      index.strides[static_cast<size_t>(instruction.axis)] = 1;
      return index;
    }
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kMultiplyAdd:
      break;
    default:
      return std::nullopt;
  }
  std::vector<const LinearIndex*> operands;
  for (const int operand : instruction.operands) {
    const auto& index = indexes[static_cast<size_t>(operand)];
    if (!index.has_value()) return std::nullopt;
    operands.push_back(&*index);
  }
  if (instruction.opcode == Opcode::kAdd) return Sum(*operands[0], *operands[1], 1);
  if (instruction.opcode == Opcode::kSubtract) return Sum(*operands[0], *operands[1], -1);
  const std::optional<LinearIndex> product = Product(*operands[0], *operands[1]);
  if (instruction.opcode == Opcode::kMultiply || !product.has_value()) return product;
  return Sum(*product, *operands[2], 1);
}

}  // namespace

std::vector<std::optional<LinearIndex>> LinearIndexesOf(const LoopProgram& program) {
  Indexes indexes;
  indexes.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    indexes.push_back(IndexOf(instruction, program.axes.size(), indexes));
    if (indexes.back().has_value() && !IsValid(*indexes.back())) indexes.back().reset();
  }
  return indexes;
}

}  // namespace kiln::graph
