// What makes a LoopProgram wrong. Back ends rely on each of these rules.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "client/graph/program/loop_program.h"
#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

bool IsIdentifier(std::string_view name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, is_word);
}

class ProgramCheck {
 public:
  explicit ProgramCheck(const LoopProgram& program)
      : program_(program), is_stored_(program.buffers.size(), false) {}

  std::string Run() {
    if (std::string wrong = Names(); !wrong.empty()) return wrong;
    if (std::string wrong = Axes(); !wrong.empty()) return wrong;
    for (at_ = 0; at_ < program_.instructions.size(); ++at_) {
      const Instruction& instruction = program_.instructions[at_];
      if (const std::string wrong = One(instruction); !wrong.empty()) {
        return fmt::format("instruction {} ({}): {}", at_, FactsOf(instruction.opcode).name, wrong);
      }
    }
    return "";
  }

 private:
  std::string Names() const {
    if (!IsIdentifier(program_.name)) {
      return fmt::format("the program's name \"{}\" is no identifier", program_.name);
    }
    std::set<std::string_view> names;
    const auto is_new = [&](const auto& named) {
      return IsIdentifier(named.name) && names.insert(named.name).second;
    };
    for (const Buffer& buffer : program_.buffers) {
      if (!is_new(buffer)) return NameText("buffer", buffer.name);
    }
    for (const Symbol& symbol : program_.symbols) {
      if (!is_new(symbol)) return NameText("symbol", symbol.name);
    }
    return "";
  }

  static std::string NameText(std::string_view what, std::string_view name) {
    return fmt::format("the {} name \"{}\" is no identifier, or is there twice", what, name);
  }

  std::string Axes() const {
    bool had_inner = false;
    for (size_t i = 0; i < program_.axes.size(); ++i) {
      const Axis& axis = program_.axes[i];
      if (had_inner && !axis.is_inner) {
        return fmt::format("axis {} is outer and stands behind an inner one", i);
      }
      had_inner = axis.is_inner;
      if (const std::string wrong = WrongSize(axis.extent); !wrong.empty()) {
        return fmt::format("axis {}: {}", i, wrong);
      }
      if (axis.extent.Constant().value_or(0) < 0) {
        return fmt::format("axis {} has the negative extent {}", i, *axis.extent.Constant());
      }
    }
    return "";
  }

  std::string WrongSize(const Size& size) const {
    if (!size.IsValid()) return "the size overflows";
    for (const Size::Term& term : size.terms()) {
      for (const int symbol : term.symbols) {
        if (!IsIn(symbol, program_.symbols)) {
          return fmt::format("the size names symbol {}, which the program lacks", symbol);
        }
      }
    }
    return "";
  }

  template <typename T>
  static bool IsIn(int number, const std::vector<T>& all) {
    return number >= 0 && static_cast<size_t>(number) < all.size();
  }

  std::string One(const Instruction& instruction) {
    const OpcodeFacts& facts = FactsOf(instruction.opcode);
    const int operands = static_cast<int>(instruction.operands.size());
    if (operands < facts.operands_min || operands > facts.operands_max) {
      return fmt::format("has {} operands, takes {} to {}", operands, facts.operands_min,
                         facts.operands_max);
    }
    if (FactsOf(instruction.type).bits < 8) return "a type of 4 bits: use whole bytes";
    for (const int operand : instruction.operands) {
      if (operand < 0 || static_cast<size_t>(operand) >= at_) {
        return fmt::format("operand %{} is no earlier instruction", operand);
      }
      if (program_.instructions[static_cast<size_t>(operand)].opcode == Opcode::kStore) {
        return fmt::format("operand %{} is a store, which has no value", operand);
      }
    }
    switch (facts.kind) {
      case OpcodeKind::kLeaf:
        return Leaf(instruction);
      case OpcodeKind::kMemory:
        return Memory(instruction);
      case OpcodeKind::kMove:
        return Move(instruction);
      case OpcodeKind::kCompute:
        return Compute(instruction, facts);
      case OpcodeKind::kReduce:
        return Reduce(instruction);
    }
    return "";
  }

  DType TypeOfOperand(const Instruction& instruction, size_t i) const {
    return program_.instructions[static_cast<size_t>(instruction.operands[i])].type;
  }
  std::string Requires(const Instruction& instruction, size_t i, DType type) const {
    const DType has = TypeOfOperand(instruction, i);
    if (has == type) return "";
    return fmt::format("operand %{} is {}, and {} is needed", instruction.operands[i],
                       FactsOf(has).name, FactsOf(type).name);
  }
  static std::string ResultIs(const Instruction& instruction, DType type) {
    if (instruction.type == type) return "";
    return fmt::format("has type {}, and {} is needed", FactsOf(instruction.type).name,
                       FactsOf(type).name);
  }

  std::string Leaf(const Instruction& instruction) const {
    if (instruction.opcode == Opcode::kConstant) return "";
    if (instruction.opcode == Opcode::kSize) {
      if (std::string wrong = WrongSize(instruction.size); !wrong.empty()) return wrong;
    } else if (!IsIn(instruction.axis, program_.axes)) {
      return fmt::format("there is no axis {}", instruction.axis);
    }
    return ResultIs(instruction, DType::kI64);
  }

  std::string Memory(const Instruction& instruction) {
    if (!IsIn(instruction.buffer, program_.buffers)) {
      return fmt::format("there is no buffer {}", instruction.buffer);
    }
    const auto number = static_cast<size_t>(instruction.buffer);
    const Buffer& buffer = program_.buffers[number];
    if (std::string wrong = ResultIs(instruction, buffer.type); !wrong.empty()) return wrong;
    if (std::string wrong = Requires(instruction, 0, DType::kI64); !wrong.empty()) return wrong;
    const bool is_store = instruction.opcode == Opcode::kStore;
    const size_t mask = is_store ? 2 : 1;
    if (instruction.operands.size() > mask) {
      if (std::string wrong = Requires(instruction, mask, DType::kBool); !wrong.empty()) {
        return wrong;
      }
    }
    if (!is_store) {
      return is_stored_[number] ? fmt::format("buffer {} is written before", buffer.name) : "";
    }
    if (!buffer.is_written) return fmt::format("buffer {} is not for writing", buffer.name);
    if (instruction.store != StoreKind::kPlain && buffer.type == DType::kBool) {
      return "an atomic store takes numbers";
    }
    is_stored_[number] = true;
    return Requires(instruction, 1, instruction.type);
  }

  std::string Move(const Instruction& instruction) const {
    if (instruction.opcode == Opcode::kCast) return "";
    if (instruction.opcode == Opcode::kBitCast) {
      const DType from = TypeOfOperand(instruction, 0);
      if (FactsOf(from).bits == FactsOf(instruction.type).bits) return "";
      return fmt::format("{} and {} differ in bits", FactsOf(from).name,
                         FactsOf(instruction.type).name);
    }
    if (std::string wrong = Requires(instruction, 0, DType::kBool); !wrong.empty()) return wrong;
    if (std::string wrong = Requires(instruction, 1, instruction.type); !wrong.empty()) {
      return wrong;
    }
    return Requires(instruction, 2, instruction.type);
  }

  std::string Compute(const Instruction& instruction, const OpcodeFacts& facts) const {
    const DType type = TypeOfOperand(instruction, 0);
    const bool is_taken = (type == DType::kBool && facts.takes_bool) ||
                          (IsInteger(type) && facts.takes_integer) ||
                          (IsFloat(type) && facts.takes_float);
    if (!is_taken) return fmt::format("does not take {}", FactsOf(type).name);
    if (std::string wrong = Computes(type); !wrong.empty()) return wrong;
    for (size_t i = 1; i < instruction.operands.size(); ++i) {
      if (std::string wrong = Requires(instruction, i, type); !wrong.empty()) return wrong;
    }
    return ResultIs(instruction, facts.gives_bool ? DType::kBool : type);
  }

  static std::string Computes(DType type) {
    const DType compute = FactsOf(type).compute;
    if (compute == type) return "";
    return fmt::format("cast {} to {} first", FactsOf(type).name, FactsOf(compute).name);
  }

  std::string Reduce(const Instruction& instruction) const {
    if (instruction.axes.empty()) return "reduces over no axis";
    for (size_t i = 0; i < instruction.axes.size(); ++i) {
      const int axis = instruction.axes[i];
      if (!IsIn(axis, program_.axes) || !program_.axes[static_cast<size_t>(axis)].is_inner) {
        return fmt::format("axis {} is no inner axis", axis);
      }
      if (i > 0 && instruction.axes[i - 1] >= axis) return "axes are not ascending";
    }
    const DType type = TypeOfOperand(instruction, 0);
    const bool is_logic =
        instruction.reduction == Reduction::kAnd || instruction.reduction == Reduction::kOr;
    if (is_logic ? IsFloat(type) : type == DType::kBool) {
      return fmt::format("{} does not take {}", NameOf(instruction.reduction), FactsOf(type).name);
    }
    if (std::string wrong = Computes(type); !wrong.empty()) return wrong;
    return ResultIs(instruction, IsArgReduction(instruction.reduction) ? DType::kI64 : type);
  }

  const LoopProgram& program_;
  size_t at_ = 0;
  std::vector<bool> is_stored_;
};

}  // namespace

std::string WhatIsWrong(const LoopProgram& program) { return ProgramCheck(program).Run(); }

}  // namespace kiln::graph
