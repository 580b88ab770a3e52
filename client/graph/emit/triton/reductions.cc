#include "client/graph/emit/triton/reductions.h"

#include <cmath>
#include <limits>

#include "client/graph/program/opcode.h"

namespace kiln::graph::triton {
namespace {

DType KeptType(DType type) {
  if (IsFloat(type) || FactsOf(type).bits >= 32) return type;
  return FactsOf(type).kind == DTypeClass::kSigned ? DType::kI32 : DType::kU32;
}

}  // namespace

Accumulator::Accumulator(IrBuilder& ir, ScalarLowering& scalars, Reduction reduction, DType type)
    : ir_(ir),
      scalars_(scalars),
      reduction_(reduction),
      type_(type),
      kept_(KeptType(type)),
      is_argument_(IsArgReduction(reduction)),
      is_maximum_(reduction == Reduction::kMaximum || reduction == Reduction::kFirstArgMaximum ||
                  reduction == Reduction::kLastArgMaximum),
      is_first_(reduction == Reduction::kFirstArgMinimum ||
                reduction == Reduction::kFirstArgMaximum) {}

// What changes no other value. The least extreme has to lose against every value of the operand's
// type, as it is kept.
Value Accumulator::StartNumber(const Type& type) {
  switch (reduction_) {
    case Reduction::kSum:
    case Reduction::kOr:
      return type.IsFloat() ? ir_.Float(type, 0) : ir_.Integer(type, 0);
    case Reduction::kProduct:
      return type.IsFloat() ? ir_.Float(type, 1) : ir_.Integer(type, 1);
    case Reduction::kAnd:
      return ir_.Integer(type, -1);
    default:
      break;
  }
  if (type.IsFloat()) return ir_.Float(type, is_maximum_ ? -INFINITY : INFINITY);
  if (FactsOf(kept_).kind == DTypeClass::kUnsigned) return ir_.Integer(type, is_maximum_ ? 0 : -1);
  const int64_t smallest = int64_t{-1} << (BitsOf(type.scalar) - 1);
  return ir_.Integer(type, is_maximum_ ? smallest : ~smallest);
}

IrBuilder::Values Accumulator::Start(const std::vector<int64_t>& shape) {
  Values values = {StartNumber({ValueScalar(kept_), shape})};
  if (is_argument_) {
    // A position that loses against every other where the values are equal.
    const int64_t none = is_first_ ? std::numeric_limits<int64_t>::max() : -1;
    values.push_back(ir_.Integer({Scalar::kI64, shape}, none));
  }
  return values;
}

IrBuilder::Values Accumulator::Widen(Value value, Value position) {
  Values values = {scalars_.Cast(type_, kept_, value)};
  if (is_argument_) values.push_back(position);
  return values;
}

IrBuilder::Values Accumulator::Combine(const Values& left, const Values& right) {
  if (!is_argument_) return {scalars_.Binary(OpcodeOf(reduction_), kept_, left[0], right[0])};
  const auto is_less = [&](Value one, Value other) {
    return scalars_.Binary(Opcode::kLess, kept_, one, other);
  };
  Value wins = is_maximum_ ? is_less(right[0], left[0]) : is_less(left[0], right[0]);
  Value ties = scalars_.Binary(Opcode::kEqual, kept_, left[0], right[0]);
  if (IsFloat(kept_)) {
    const Value left_is_nan = ir_.Compare("uno", left[0], left[0]);
    const Value right_is_nan = ir_.Compare("uno", right[0], right[0]);
    const Value both = ir_.Binary("arith.andi", left_is_nan, right_is_nan);
    const Value only_left = ir_.Binary("arith.xori", left_is_nan, both);
    wins = ir_.Binary("arith.ori", wins, only_left);
    ties = ir_.Binary("arith.ori", ties, both);
  }
  const Value comes_first = ir_.Compare(is_first_ ? "slt" : "sgt", left[1], right[1]);
  wins = ir_.Binary("arith.ori", wins, ir_.Binary("arith.andi", ties, comes_first));
  return {ir_.Select(wins, left[0], right[0]), ir_.Select(wins, left[1], right[1])};
}

Value Accumulator::Result(const Values& values) {
  return is_argument_ ? values[1] : scalars_.Cast(kept_, type_, values[0]);
}

}  // namespace kiln::graph::triton
