#include "client/graph/program/program_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

// The integer's low bits, as the type reads them: -1 is 255 in u8.
int64_t Wrapped(DType type, int64_t integer) {
  const DTypeFacts& facts = FactsOf(type);
  if (type == DType::kBool) return static_cast<int64_t>(integer != 0);
  if (facts.bits >= 64) return integer;
  const int unused = 64 - facts.bits;
  const uint64_t high = static_cast<uint64_t>(integer) << unused;
  if (facts.kind == DTypeClass::kUnsigned) return static_cast<int64_t>(high >> unused);
  return static_cast<int64_t>(high) >> unused;
}

// ONNX leaves open what a number that does not fit means. This takes the nearest of 64 bits.
int64_t Saturated(double number) {
  if (number >= 0x1p63) return INT64_MAX;
  if (number <= -0x1p63) return INT64_MIN;
  return std::isnan(number) ? 0 : static_cast<int64_t>(number);
}

// Commutative, so that x + y and y + x are one instruction. Operands of minimum and maximum may be
// zeros of both signs, and stay.
bool IsCommutative(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kEqual:
    case Opcode::kNotEqual:
      return true;
    default:
      return false;
  }
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::string name, std::vector<Symbol> symbols) {
  program_.name = std::move(name);
  program_.symbols = std::move(symbols);
}

int ProgramBuilder::AddInput(std::string name, DType type) {
  return AddBuffer(std::move(name), type, false);
}

int ProgramBuilder::AddOutput(std::string name, DType type) {
  return AddBuffer(std::move(name), type, true);
}

int ProgramBuilder::AddBuffer(std::string name, DType type, bool is_written) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.type = type;
  buffer.is_written = is_written;
  program_.buffers.push_back(std::move(buffer));
  return static_cast<int>(program_.buffers.size()) - 1;
}

int ProgramBuilder::AddAxis(Size extent, bool is_inner) {
  program_.axes.push_back({std::move(extent), is_inner});
  return static_cast<int>(program_.axes.size()) - 1;
}

int ProgramBuilder::Constant(DType type, double number) {
  if (!IsFloat(type)) return Integer(type, Saturated(number));
  Instruction constant;
  constant.type = type;
  constant.number = number;
  return Make(std::move(constant));
}

int ProgramBuilder::Integer(DType type, int64_t integer) {
  if (IsFloat(type)) return Constant(type, static_cast<double>(integer));
  Instruction constant;
  constant.type = FactsOf(type).bits < 8 ? FactsOf(type).compute : type;
  constant.integer = Wrapped(type, integer);
  return Make(std::move(constant));
}

int ProgramBuilder::SizeOf(const Size& size) {
  if (const auto constant = size.Constant()) return Integer(DType::kI64, *constant);
  Instruction instruction;
  instruction.opcode = Opcode::kSize;
  instruction.type = DType::kI64;
  instruction.size = size;
  return Make(std::move(instruction));
}

int ProgramBuilder::AxisAt(int axis) {
  if (program_.axes[static_cast<size_t>(axis)].extent == Size(1)) return Integer(DType::kI64, 0);
  Instruction instruction;
  instruction.opcode = Opcode::kAxis;
  instruction.type = DType::kI64;
  instruction.axis = axis;
  return Make(std::move(instruction));
}

int ProgramBuilder::Load(int buffer, int index, std::optional<int> mask) {
  Instruction load;
  load.opcode = Opcode::kLoad;
  load.type = program_.buffers[static_cast<size_t>(buffer)].type;
  load.operands = {index};
  if (mask) load.operands.push_back(*mask);
  load.buffer = buffer;
  return Make(std::move(load));
}

void ProgramBuilder::Store(int buffer, int index, int value, std::optional<int> mask,
                           StoreKind kind) {
  Instruction store;
  store.opcode = Opcode::kStore;
  store.type = program_.buffers[static_cast<size_t>(buffer)].type;
  store.operands = {index, value};
  if (mask) store.operands.push_back(*mask);
  store.buffer = buffer;
  store.store = kind;
  program_.instructions.push_back(std::move(store));
}

int ProgramBuilder::Unary(Opcode opcode, int x) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.type = FactsOf(opcode).gives_bool ? DType::kBool : TypeOf(x);
  instruction.operands = {x};
  return Make(std::move(instruction));
}

int ProgramBuilder::Binary(Opcode opcode, int x, int y) {
  if (const auto folded = Folded(opcode, x, y)) return *folded;
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.type = FactsOf(opcode).gives_bool ? DType::kBool : TypeOf(x);
  instruction.operands = {x, y};
  return Make(std::move(instruction));
}

// Bit 3 of a signed one is its sign.
int ProgramBuilder::LowBits(DType type, int x) {
  const int low = Binary(Opcode::kAnd, x, Integer(TypeOf(x), 15));
  if (type == DType::kU4) return low;
  const int sign = Integer(DType::kI8, 8);
  return Binary(Opcode::kSubtract, Binary(Opcode::kXor, low, sign), sign);
}

int ProgramBuilder::Cast(DType type, int x) {
  if (FactsOf(type).bits < 8) {
    // NumPy gives the low bits of a negative float, too.
    const int whole = IsFloat(TypeOf(x)) ? Cast(DType::kI8, x) : x;
    return LowBits(type, Cast(FactsOf(type).compute, whole));
  }
  if (TypeOf(x) == type) return x;
  Instruction cast;
  cast.opcode = Opcode::kCast;
  cast.type = type;
  cast.operands = {x};
  return Make(std::move(cast));
}

int ProgramBuilder::BitCast(DType type, int x) {
  if (FactsOf(type).bits < 8) return LowBits(type, BitCast(FactsOf(type).compute, x));
  if (TypeOf(x) == type) return x;
  Instruction cast;
  cast.opcode = Opcode::kBitCast;
  cast.type = type;
  cast.operands = {x};
  return Make(std::move(cast));
}

int ProgramBuilder::Select(int condition, int x, int y) {
  if (x == y) return x;
  Instruction select;
  select.opcode = Opcode::kSelect;
  select.type = TypeOf(x);
  select.operands = {condition, x, y};
  return Make(std::move(select));
}

int ProgramBuilder::MultiplyAdd(int x, int y, int z) {
  Instruction instruction;
  instruction.opcode = Opcode::kMultiplyAdd;
  instruction.type = TypeOf(x);
  instruction.operands = {x, y, z};
  return Make(std::move(instruction));
}

int ProgramBuilder::Reduce(Reduction reduction, int x, std::vector<int> axes) {
  std::ranges::sort(axes);
  Instruction reduce;
  reduce.opcode = Opcode::kReduce;
  reduce.type = IsArgReduction(reduction) ? DType::kI64 : TypeOf(x);
  reduce.operands = {x};
  reduce.reduction = reduction;
  reduce.axes = std::move(axes);
  return Make(std::move(reduce));
}

std::optional<Size> ProgramBuilder::AsSize(int value) const {
  const Instruction& instruction = At(value);
  if (instruction.type != DType::kI64) return std::nullopt;
  if (instruction.opcode == Opcode::kSize) return instruction.size;
  if (instruction.opcode == Opcode::kConstant) return Size(instruction.integer);
  return std::nullopt;
}

bool ProgramBuilder::IsNumber(int value, int64_t number) const {
  const Instruction& instruction = At(value);
  return instruction.opcode == Opcode::kConstant && IsInteger(instruction.type) &&
         instruction.integer == number;
}

// Integers alone: -0.0 + 0.0 is no -0.0, and NaN * 0.0 is no 0.0.
std::optional<int> ProgramBuilder::Folded(Opcode opcode, int x, int y) {
  if (!IsInteger(TypeOf(x))) return std::nullopt;
  if (opcode == Opcode::kAdd || opcode == Opcode::kSubtract || opcode == Opcode::kMultiply) {
    const auto one = AsSize(x);
    const auto two = AsSize(y);
    if (one && two) {
      const Size size = opcode == Opcode::kAdd        ? *one + *two
                        : opcode == Opcode::kSubtract ? *one - *two
                                                      : *one * *two;
      if (size.IsValid()) return SizeOf(size);
    }
  }
  switch (opcode) {
    case Opcode::kAdd:
      if (IsNumber(x, 0)) return y;
      [[fallthrough]];
    case Opcode::kSubtract:
      if (IsNumber(y, 0)) return x;
      return std::nullopt;
    case Opcode::kMultiply:
      if (IsNumber(x, 0) || IsNumber(y, 1)) return x;
      if (IsNumber(y, 0) || IsNumber(x, 1)) return y;
      return std::nullopt;
    case Opcode::kDivide:
    case Opcode::kFloorDivide:
      if (IsNumber(y, 1)) return x;
      return std::nullopt;
    case Opcode::kRemainder:
    case Opcode::kFloorRemainder:
      if (IsNumber(y, 1)) return Integer(TypeOf(x), 0);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

int ProgramBuilder::Make(Instruction instruction) {
  const std::string size =
      instruction.opcode == Opcode::kSize ? instruction.size.ToString(program_.symbols) : "";
  // The instruction keeps its order, which no compiler of Kiln decides.
  std::vector<int> operands = instruction.operands;
  if (IsCommutative(instruction.opcode)) std::ranges::sort(operands);
  Key key{instruction.opcode,  instruction.type,
          std::move(operands), std::bit_cast<uint64_t>(instruction.number),
          instruction.integer, size,
          instruction.axis,    instruction.buffer,
          instruction.axes,    instruction.reduction};
  const auto [made, is_new] =
      made_.emplace(std::move(key), static_cast<int>(program_.instructions.size()));
  if (is_new) program_.instructions.push_back(std::move(instruction));
  return made->second;
}

}  // namespace kiln::graph
