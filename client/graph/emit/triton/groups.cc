#include "client/graph/emit/triton/groups.h"

#include <utility>

namespace kiln::graph::triton {
namespace {

struct Groups {
  int axis = 0;
  int64_t size = 0;  // positions of one
  int64_t count = 0;
};

std::optional<int64_t> ConstantOf(const Instruction& instruction) {
  if (instruction.opcode == Opcode::kConstant) return instruction.integer;
  return instruction.opcode == Opcode::kSize ? instruction.size.Constant() : std::nullopt;
}

// What the instruction divides into groups.
std::optional<Groups> GroupsOf(const LoopProgram& program, const Instruction& divide) {
  if (divide.opcode != Opcode::kDivide || divide.type != DType::kI64) return std::nullopt;
  const auto operand = [&](size_t i) {
    return program.instructions[static_cast<size_t>(divide.operands[i])];
  };
  if (operand(0).opcode != Opcode::kAxis) return std::nullopt;
  const Axis& axis = program.axes[static_cast<size_t>(operand(0).axis)];
  const auto size = ConstantOf(operand(1));
  const auto extent = axis.extent.Constant();
  if (axis.is_inner || !size || !extent || *size < 2 || *extent % *size != 0) return std::nullopt;
  return Groups{operand(0).axis, *size, *extent / *size};
}

// Copies instructions. The axis of groups has the old one's number, and that within a group the
// next.
class Copy {
 public:
  Copy(const LoopProgram& from, const Groups& groups) : from_(from), groups_(groups) {}

  LoopProgram Run() && {
    into_ = from_;
    into_.instructions.clear();
    const auto at = into_.axes.begin() + groups_.axis;
    at->extent = groups_.count;
    into_.axes.insert(at + 1, Axis{.extent = groups_.size});
    const int group = AddAxis(groups_.axis);
    Instruction constant = Integer(Opcode::kConstant);
    constant.integer = groups_.size;
    const int size = Add(std::move(constant));
    const int first = Binary(Opcode::kMultiply, group, size);
    const int position = Binary(Opcode::kAdd, first, AddAxis(groups_.axis + 1));
    for (const Instruction& instruction : from_.instructions) {
      const bool is_position =
          instruction.opcode == Opcode::kAxis && instruction.axis == groups_.axis;
      numbers_.push_back(is_position            ? position
                         : IsGroup(instruction) ? group
                                                : Add(Renumbered(instruction)));
    }
    return std::move(into_);
  }

 private:
  bool IsGroup(const Instruction& instruction) const {
    const auto groups = GroupsOf(from_, instruction);
    return groups && groups->axis == groups_.axis && groups->size == groups_.size;
  }
  static Instruction Integer(Opcode opcode) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.type = DType::kI64;
    return instruction;
  }
  int Add(Instruction instruction) {
    into_.instructions.push_back(std::move(instruction));
    return static_cast<int>(into_.instructions.size()) - 1;
  }
  int AddAxis(int axis) {
    Instruction position = Integer(Opcode::kAxis);
    position.axis = axis;
    return Add(std::move(position));
  }
  int Binary(Opcode opcode, int x, int y) {
    Instruction result = Integer(opcode);
    result.operands = {x, y};
    return Add(std::move(result));
  }
  Instruction Renumbered(Instruction instruction) const {
    for (int& operand : instruction.operands) operand = numbers_[static_cast<size_t>(operand)];
    for (int& axis : instruction.axes) axis += axis > groups_.axis ? 1 : 0;
    instruction.axis += instruction.axis > groups_.axis ? 1 : 0;
    return instruction;
  }

  const LoopProgram& from_;
  const Groups groups_;
  LoopProgram into_;
  std::vector<int> numbers_;  // in the copy, by those in `from_`
};

}  // namespace

std::optional<LoopProgram> SplitGroups(const LoopProgram& program) {
  for (const Instruction& instruction : program.instructions) {
    if (const auto groups = GroupsOf(program, instruction)) return Copy(program, *groups).Run();
  }
  return std::nullopt;
}

}  // namespace kiln::graph::triton
