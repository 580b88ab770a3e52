#include "tests/testing/graph/program_interpreter.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "client/graph/program/opcode.h"
#include "tests/testing/graph/scalar.h"

namespace kiln::graph {
namespace {

size_t BytesOf(DType type) { return static_cast<size_t>(FactsOf(type).bits / 8); }
bool IsPacked(DType type) { return FactsOf(type).bits < 8; }

// The start of a reduction. Argument reductions start with their first element instead.
Scalar Identity(Reduction reduction, DType type) {
  const bool is_signed = FactsOf(type).kind == DTypeClass::kSigned;
  const double infinity = std::numeric_limits<double>::infinity();
  const uint64_t sign_bit = 1ULL << (FactsOf(type).bits - 1);
  switch (reduction) {
    case Reduction::kProduct:
      return CastTo(type, DType::kI64, {0, 1});
    case Reduction::kMinimum:
      return {infinity, is_signed ? sign_bit - 1 : sign_bit - 1 + sign_bit};
    case Reduction::kMaximum:
      return {-infinity, is_signed ? ScalarOf(type, sign_bit).integer : 0};
    case Reduction::kAnd:
      return ScalarOf(type, ~0ULL);
    default:
      return {};
  }
}

// Whether `value` takes the place of `best` in an argument reduction.
bool IsBetter(Reduction reduction, DType type, const Scalar& value, const Scalar& best) {
  const bool is_last = reduction >= Reduction::kLastArgMinimum;
  const bool is_minimum =
      reduction == Reduction::kFirstArgMinimum || reduction == Reduction::kLastArgMinimum;
  if (IsFloat(type) && std::isnan(best.number)) return is_last && std::isnan(value.number);
  if (IsFloat(type) && std::isnan(value.number)) return true;
  const Opcode opcode = is_last ? Opcode::kLessOrEqual : Opcode::kLess;
  const Scalar& less = is_minimum ? value : best;
  const Scalar& more = is_minimum ? best : value;
  return Binary(opcode, type, less, more).integer != 0;
}

// Positions on all axes of the program.
using Positions = std::vector<int64_t>;

class Interpreter {
 public:
  Interpreter(const LoopProgram& program, const std::vector<int64_t>& symbols,
              std::vector<TestBuffer>& buffers)
      : program_(program), symbols_(symbols), buffers_(buffers), axes_of_(InnerAxesOf(program)) {
    for (size_t axis = 0; axis < program.axes.size(); ++axis) {
      extents_.push_back(program.axes[axis].extent.Evaluate(symbols).value_or(0));
      if (!program.axes[axis].is_inner) outer_.push_back(static_cast<int>(axis));
    }
  }

  absl::Status Run() {
    values_.resize(program_.instructions.size());
    Positions positions(extents_.size(), 0);
    ForEach(outer_, positions, [&] {
      for (size_t i = 0; i < program_.instructions.size() && status_.ok(); ++i) {
        Evaluate(i, positions);
      }
    });
    return status_;
  }

 private:
  // Calls `body` for each position on the axes, in row-major order.
  template <typename Body>
  void ForEach(const std::vector<int>& axes, Positions& positions, const Body& body,
               size_t depth = 0) {
    if (depth == axes.size()) return body();
    const auto axis = static_cast<size_t>(axes[depth]);
    for (int64_t at = 0; at < extents_[axis]; ++at) {
      positions[axis] = at;
      ForEach(axes, positions, body, depth + 1);
    }
    positions[axis] = 0;
  }

  size_t IndexOf(const std::vector<int>& axes, const Positions& positions) const {
    int64_t index = 0;
    for (const int axis : axes) {
      const auto number = static_cast<size_t>(axis);
      index = index * extents_[number] + positions[number];
    }
    return static_cast<size_t>(index);
  }

  const Scalar& ValueOf(int instruction, const Positions& positions) const {
    const auto number = static_cast<size_t>(instruction);
    return values_[number][IndexOf(axes_of_[number], positions)];
  }
  DType TypeOf(int instruction) const {
    return program_.instructions[static_cast<size_t>(instruction)].type;
  }

  // Values of one instruction in all positions of its inner axes.
  void Evaluate(size_t number, Positions& positions) {
    values_[number].clear();
    ForEach(axes_of_[number], positions, [&] {
      if (status_.ok()) values_[number].push_back(Value(number, positions));
    });
  }

  Scalar Value(size_t number, Positions& positions) {
    const Instruction& instruction = program_.instructions[number];
    const auto operand = [&](size_t i) { return ValueOf(instruction.operands[i], positions); };
    switch (instruction.opcode) {
      case Opcode::kConstant:
        return IsFloat(instruction.type)
                   ? CastTo(instruction.type, DType::kF64, {instruction.number, 0})
                   : ScalarOf(instruction.type, static_cast<uint64_t>(instruction.integer));
      case Opcode::kSize:
        return {0, static_cast<uint64_t>(instruction.size.Evaluate(symbols_).value_or(0))};
      case Opcode::kAxis:
        return {0, static_cast<uint64_t>(positions[static_cast<size_t>(instruction.axis)])};
      case Opcode::kLoad:
        return Load(number, positions);
      case Opcode::kStore:
        Store(number, positions);
        return {};
      case Opcode::kReduce:
        return Reduce(instruction, positions);
      case Opcode::kSelect:
        return operand(0).integer != 0 ? operand(1) : operand(2);
      case Opcode::kMultiplyAdd: {
        const DType type = instruction.type;
        if (!IsFloat(type)) {
          return Binary(Opcode::kAdd, type, Binary(Opcode::kMultiply, type, operand(0), operand(1)),
                        operand(2));
        }
        const double sum = std::fma(operand(0).number, operand(1).number, operand(2).number);
        return CastTo(type, DType::kF64, {sum, 0});
      }
      default: {
        const DType from = TypeOf(instruction.operands[0]);
        return instruction.operands.size() == 1
                   ? Unary(instruction.opcode, instruction.type, from, operand(0))
                   : Binary(instruction.opcode, from, operand(0), operand(1));
      }
    }
  }

  bool IsWithin(size_t number, int64_t index) {
    const auto buffer = static_cast<size_t>(program_.instructions[number].buffer);
    const int64_t size = buffers_[buffer].size();
    if (index >= 0 && index < size) return true;
    status_ = absl::OutOfRangeError(
        fmt::format("instruction {} ({}): element {} of buffer {}, which has {}", number,
                    FactsOf(program_.instructions[number].opcode).name, index,
                    program_.buffers[buffer].name, size));
    return false;
  }

  Scalar Load(size_t number, const Positions& positions) {
    const Instruction& load = program_.instructions[number];
    if (load.operands.size() > 1 && ValueOf(load.operands[1], positions).integer == 0) return {};
    const auto index = static_cast<int64_t>(ValueOf(load.operands[0], positions).integer);
    if (!IsWithin(number, index)) return {};
    return ScalarOf(load.type, buffers_[static_cast<size_t>(load.buffer)].Bits(index));
  }

  void Store(size_t number, const Positions& positions) {
    const Instruction& store = program_.instructions[number];
    if (store.operands.size() > 2 && ValueOf(store.operands[2], positions).integer == 0) return;
    const auto index = static_cast<int64_t>(ValueOf(store.operands[0], positions).integer);
    if (!IsWithin(number, index)) return;
    TestBuffer& buffer = buffers_[static_cast<size_t>(store.buffer)];
    Scalar value = ValueOf(store.operands[1], positions);
    if (store.store != StoreKind::kPlain) {
      const Scalar before = ScalarOf(store.type, buffer.Bits(index));
      value = Binary(OpcodeOf(store.store), store.type, before, value);
    }
    buffer.SetBits(index, BitsOf(store.type, value));
  }

  Scalar Reduce(const Instruction& reduce, Positions& positions) {
    const int operand = reduce.operands[0];
    const DType type = TypeOf(operand);
    const bool is_argument = IsArgReduction(reduce.reduction);
    Scalar result = is_argument ? Scalar{} : Identity(reduce.reduction, reduce.type);
    Scalar best;
    uint64_t position = 0;
    ForEach(reduce.axes, positions, [&] {
      const Scalar& value = ValueOf(operand, positions);
      if (!is_argument) {
        result = Binary(OpcodeOf(reduce.reduction), type, result, value);
      } else if (position == 0 || IsBetter(reduce.reduction, type, value, best)) {
        best = value;
        result.integer = position;
      }
      ++position;
    });
    return result;
  }

  const LoopProgram& program_;
  const std::vector<int64_t>& symbols_;
  std::vector<TestBuffer>& buffers_;
  const std::vector<std::vector<int>> axes_of_;
  std::vector<int64_t> extents_;
  std::vector<int> outer_;
  std::vector<std::vector<Scalar>> values_;  // by instruction, by position of its inner axes
  absl::Status status_;
};

}  // namespace

TestBuffer::TestBuffer(DType type, int64_t size)
    : type_(type), bytes_((static_cast<size_t>(size * FactsOf(type).bits) + 7) / 8) {}

TestBuffer TestBuffer::Of(DType type, const std::vector<double>& numbers) {
  TestBuffer buffer(type, static_cast<int64_t>(numbers.size()));
  for (size_t i = 0; i < numbers.size(); ++i) buffer.SetNumber(static_cast<int64_t>(i), numbers[i]);
  return buffer;
}

int64_t TestBuffer::size() const {
  return static_cast<int64_t>(bytes_.size()) * 8 / FactsOf(type_).bits;
}

uint64_t TestBuffer::Bits(int64_t index) const {
  uint64_t bits = 0;
  if (IsPacked(type_)) {
    bits = bytes_[static_cast<size_t>(index / 2)] >> (index % 2 * 4) & 15U;
    return type_ == DType::kI4 && bits > 7 ? bits - 16 : bits;
  }
  std::memcpy(&bits, bytes_.data() + static_cast<size_t>(index) * BytesOf(type_), BytesOf(type_));
  return IsFloat(type_) ? bits : ScalarOf(type_, bits).integer;
}

void TestBuffer::SetBits(int64_t index, uint64_t bits) {
  if (IsPacked(type_)) {
    uint8_t& byte = bytes_[static_cast<size_t>(index / 2)];
    const auto shift = static_cast<unsigned>(index % 2 * 4);
    byte = static_cast<uint8_t>((byte & ~(15U << shift)) | (bits & 15U) << shift);
    return;
  }
  std::memcpy(bytes_.data() + static_cast<size_t>(index) * BytesOf(type_), &bits, BytesOf(type_));
}

double TestBuffer::Number(int64_t index) const {
  return CastTo(DType::kF64, type_, ScalarOf(type_, Bits(index))).number;
}

void TestBuffer::SetNumber(int64_t index, double number) {
  SetBits(index, BitsOf(type_, CastTo(type_, DType::kF64, {number, 0})));
}

std::vector<double> TestBuffer::Numbers() const {
  std::vector<double> numbers;
  for (int64_t i = 0; i < size(); ++i) numbers.push_back(Number(i));
  return numbers;
}

absl::Status Interpret(const LoopProgram& program, const std::vector<int64_t>& symbols,
                       std::vector<TestBuffer>& buffers) {
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  if (symbols.size() != program.symbols.size() || buffers.size() != program.buffers.size()) {
    return absl::InvalidArgumentError("give a number for each symbol and a buffer for each buffer");
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const DType type = buffers[i].type();
    if (program.buffers[i].type == (IsPacked(type) ? DType::kU8 : type)) continue;
    return absl::InvalidArgumentError(
        fmt::format("buffer {} has another type", program.buffers[i].name));
  }
  std::vector<TestBuffer> memory;
  for (size_t i = 0; i < buffers.size(); ++i) {
    memory.emplace_back(program.buffers[i].type, 0);
    memory.back().bytes().swap(buffers[i].bytes());
  }
  const absl::Status status = Interpreter(program, symbols, memory).Run();
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].bytes().swap(memory[i].bytes());
  return status;
}

}  // namespace kiln::graph
