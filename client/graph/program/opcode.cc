#include "client/graph/program/opcode.h"

#include <array>

namespace kiln::graph {
namespace {

using O = Opcode;
using K = OpcodeKind;

constexpr OpcodeFacts Float(Opcode opcode, std::string_view name, int operands = 1) {
  return {opcode, name, K::kCompute, operands, operands, false, false, true, false};
}
constexpr OpcodeFacts Number(Opcode opcode, std::string_view name, int operands = 2) {
  return {opcode, name, K::kCompute, operands, operands, false, true, true, false};
}
constexpr OpcodeFacts Integer(Opcode opcode, std::string_view name) {
  return {opcode, name, K::kCompute, 2, 2, false, true, false, false};
}
constexpr OpcodeFacts Bits(Opcode opcode, std::string_view name, int operands = 2) {
  return {opcode, name, K::kCompute, operands, operands, true, true, false, false};
}
constexpr OpcodeFacts Any(Opcode opcode, std::string_view name, OpcodeKind kind, int min, int max) {
  return {opcode, name, kind, min, max, true, true, true, false};
}

constexpr std::array kOpcodes = {
    Any(O::kConstant, "constant", K::kLeaf, 0, 0),
    Any(O::kSize, "size", K::kLeaf, 0, 0),
    Any(O::kAxis, "axis", K::kLeaf, 0, 0),
    Any(O::kLoad, "load", K::kMemory, 1, 2),
    Number(O::kNegate, "neg", 1),
    Number(O::kAbsolute, "abs", 1),
    Float(O::kSquareRoot, "sqrt"),
    Float(O::kReciprocalSquareRoot, "rsqrt"),
    Float(O::kExponential, "exp"),
    Float(O::kExponential2, "exp2"),
    Float(O::kLogarithm, "log"),
    Float(O::kLogarithm2, "log2"),
    Float(O::kSine, "sin"),
    Float(O::kCosine, "cos"),
    Float(O::kTangent, "tan"),
    Float(O::kArcSine, "asin"),
    Float(O::kArcCosine, "acos"),
    Float(O::kArcTangent, "atan"),
    Float(O::kHyperbolicSine, "sinh"),
    Float(O::kHyperbolicCosine, "cosh"),
    Float(O::kHyperbolicTangent, "tanh"),
    Float(O::kArcHyperbolicSine, "asinh"),
    Float(O::kArcHyperbolicCosine, "acosh"),
    Float(O::kArcHyperbolicTangent, "atanh"),
    Float(O::kErrorFunction, "erf"),
    Float(O::kFloor, "floor"),
    Float(O::kCeiling, "ceil"),
    Float(O::kTruncate, "trunc"),
    Float(O::kRoundToEven, "rint"),
    Bits(O::kNot, "not", 1),
    OpcodeFacts{O::kIsNan, "isnan", K::kCompute, 1, 1, false, false, true, true},
    OpcodeFacts{O::kIsInfinite, "isinf", K::kCompute, 1, 1, false, false, true, true},
    Any(O::kCast, "cast", K::kMove, 1, 1),
    Any(O::kBitCast, "bitcast", K::kMove, 1, 1),
    Number(O::kAdd, "add"),
    Number(O::kSubtract, "sub"),
    Number(O::kMultiply, "mul"),
    Number(O::kDivide, "div"),
    Number(O::kRemainder, "rem"),
    Integer(O::kFloorDivide, "floordiv"),
    Integer(O::kFloorRemainder, "floorrem"),
    Number(O::kMinimum, "min"),
    Number(O::kMaximum, "max"),
    Float(O::kPower, "pow", 2),
    Float(O::kArcTangent2, "atan2", 2),
    Bits(O::kAnd, "and"),
    Bits(O::kOr, "or"),
    Bits(O::kXor, "xor"),
    Integer(O::kShiftLeft, "shl"),
    Integer(O::kShiftRight, "shr"),
    OpcodeFacts{O::kLess, "lt", K::kCompute, 2, 2, false, true, true, true},
    OpcodeFacts{O::kLessOrEqual, "le", K::kCompute, 2, 2, false, true, true, true},
    OpcodeFacts{O::kEqual, "eq", K::kCompute, 2, 2, true, true, true, true},
    OpcodeFacts{O::kNotEqual, "ne", K::kCompute, 2, 2, true, true, true, true},
    Any(O::kSelect, "select", K::kMove, 3, 3),
    Number(O::kMultiplyAdd, "fma", 3),
    Any(O::kReduce, "reduce", K::kReduce, 1, 1),
    Any(O::kStore, "store", K::kMemory, 2, 3),
};

constexpr bool OpcodesAreInOrder() {
  for (size_t i = 0; i < kOpcodes.size(); ++i) {
    if (static_cast<size_t>(kOpcodes[i].opcode) != i) return false;
  }
  return kOpcodes.size() == static_cast<size_t>(O::kStore) + 1;
}
static_assert(OpcodesAreInOrder());

constexpr std::array<std::string_view, 10> kReductionNames = {
    "sum", "product", "min", "max", "all", "any", "argmin", "argmax", "last_argmin", "last_argmax"};

}  // namespace

const OpcodeFacts& FactsOf(Opcode opcode) { return kOpcodes[static_cast<size_t>(opcode)]; }

std::optional<Opcode> ParseOpcode(std::string_view name) {
  for (const OpcodeFacts& facts : kOpcodes) {
    if (facts.name == name) return facts.opcode;
  }
  return std::nullopt;
}

bool IsSpecialFunction(Opcode opcode) {
  return (opcode >= Opcode::kSquareRoot && opcode <= Opcode::kErrorFunction) ||
         (opcode >= Opcode::kDivide && opcode <= Opcode::kFloorRemainder) ||
         opcode == Opcode::kPower || opcode == Opcode::kArcTangent2;
}

std::string_view NameOf(Reduction reduction) {
  return kReductionNames[static_cast<size_t>(reduction)];
}

bool IsArgReduction(Reduction reduction) { return reduction >= Reduction::kFirstArgMinimum; }

Opcode OpcodeOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return Opcode::kAdd;
    case Reduction::kProduct:
      return Opcode::kMultiply;
    case Reduction::kMinimum:
      return Opcode::kMinimum;
    case Reduction::kMaximum:
      return Opcode::kMaximum;
    case Reduction::kAnd:
      return Opcode::kAnd;
    default:
      return Opcode::kOr;
  }
}

Opcode OpcodeOf(StoreKind store) {
  switch (store) {
    case StoreKind::kAtomicMinimum:
      return Opcode::kMinimum;
    case StoreKind::kAtomicMaximum:
      return Opcode::kMaximum;
    default:
      return Opcode::kAdd;
  }
}

}  // namespace kiln::graph
