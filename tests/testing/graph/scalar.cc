#include "tests/testing/graph/scalar.h"

#include <cmath>
#include <limits>

#include "tests/testing/graph/narrow_float.h"

namespace kiln::graph {
namespace {

// The low bits that the type has, extended to 64 by its sign.
uint64_t Wrap(DType type, uint64_t bits) {
  if (type == DType::kBool) return bits != 0 ? 1 : 0;
  const int unused = 64 - FactsOf(type).bits;
  bits <<= unused;
  if (FactsOf(type).kind != DTypeClass::kSigned) return bits >> unused;
  return static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused);
}

Scalar Float(DType type, double number) { return {RoundTo(type, number), 0}; }
Scalar Integer(DType type, uint64_t bits) { return {0, Wrap(type, bits)}; }
Scalar Bool(bool value) { return {0, value ? 1ULL : 0}; }

bool IsSigned(DType type) { return FactsOf(type).kind == DTypeClass::kSigned; }

// Towards zero. Numbers that do not fit: the nearest that does; NaN: 0.
uint64_t Truncated(DType to, double number) {
  if (std::isnan(number)) return 0;
  const double limit = std::ldexp(1.0, FactsOf(to).bits - (IsSigned(to) ? 1 : 0));
  if (number >= limit) return IsSigned(to) ? (1ULL << (FactsOf(to).bits - 1)) - 1 : ~0ULL;
  if (!IsSigned(to)) return number <= 0 ? 0 : static_cast<uint64_t>(number);
  if (number <= -limit) return ~0ULL << (FactsOf(to).bits - 1);
  return static_cast<uint64_t>(static_cast<int64_t>(number));
}

double UnaryNumber(Opcode opcode, double x) {
  switch (opcode) {
    case Opcode::kNegate:
      return -x;
    case Opcode::kAbsolute:
      return std::fabs(x);
    case Opcode::kSquareRoot:
      return std::sqrt(x);
    case Opcode::kReciprocalSquareRoot:
      return 1 / std::sqrt(x);
    case Opcode::kExponential:
      return std::exp(x);
    case Opcode::kExponential2:
      return std::exp2(x);
    case Opcode::kLogarithm:
      return std::log(x);
    case Opcode::kLogarithm2:
      return std::log2(x);
    case Opcode::kSine:
      return std::sin(x);
    case Opcode::kCosine:
      return std::cos(x);
    case Opcode::kTangent:
      return std::tan(x);
    case Opcode::kArcSine:
      return std::asin(x);
    case Opcode::kArcCosine:
      return std::acos(x);
    case Opcode::kArcTangent:
      return std::atan(x);
    case Opcode::kHyperbolicSine:
      return std::sinh(x);
    case Opcode::kHyperbolicCosine:
      return std::cosh(x);
    case Opcode::kHyperbolicTangent:
      return std::tanh(x);
    case Opcode::kArcHyperbolicSine:
      return std::asinh(x);
    case Opcode::kArcHyperbolicCosine:
      return std::acosh(x);
    case Opcode::kArcHyperbolicTangent:
      return std::atanh(x);
    case Opcode::kErrorFunction:
      return std::erf(x);
    case Opcode::kFloor:
      return std::floor(x);
    case Opcode::kCeiling:
      return std::ceil(x);
    case Opcode::kTruncate:
      return std::trunc(x);
    case Opcode::kRoundToEven:
      return std::nearbyint(x);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

uint64_t UnaryInteger(Opcode opcode, DType type, uint64_t x) {
  switch (opcode) {
    case Opcode::kNegate:
      return 0 - x;
    case Opcode::kAbsolute:
      return IsSigned(type) && static_cast<int64_t>(x) < 0 ? 0 - x : x;
    case Opcode::kNot:
      return type == DType::kBool ? 1 - x : ~x;
    default:
      return x;
  }
}

double BinaryNumber(Opcode opcode, double x, double y) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool is_nan = std::isnan(x) || std::isnan(y);
  switch (opcode) {
    case Opcode::kAdd:
      return x + y;
    case Opcode::kSubtract:
      return x - y;
    case Opcode::kMultiply:
      return x * y;
    case Opcode::kDivide:
      return x / y;
    case Opcode::kRemainder:
      return std::fmod(x, y);
    case Opcode::kMinimum:
      return is_nan ? nan : std::min(x, y);
    case Opcode::kMaximum:
      return is_nan ? nan : std::max(x, y);
    case Opcode::kPower:
      return std::pow(x, y);
    case Opcode::kArcTangent2:
      return std::atan2(x, y);
    default:
      return nan;
  }
}

// By zero: 0.
uint64_t DivideSigned(Opcode opcode, int64_t x, int64_t y) {
  if (y == 0) return 0;
  const bool divides = opcode == Opcode::kDivide || opcode == Opcode::kFloorDivide;
  if (y == -1) return divides ? 0 - static_cast<uint64_t>(x) : 0;
  const bool rounds_down = opcode == Opcode::kFloorDivide || opcode == Opcode::kFloorRemainder;
  const bool corrects = rounds_down && x % y != 0 && (x % y < 0) != (y < 0);
  const int64_t result = divides ? x / y - (corrects ? 1 : 0) : x % y + (corrects ? y : 0);
  return static_cast<uint64_t>(result);
}

uint64_t DivideUnsigned(Opcode opcode, uint64_t x, uint64_t y) {
  if (y == 0) return 0;
  return opcode == Opcode::kDivide || opcode == Opcode::kFloorDivide ? x / y : x % y;
}

uint64_t Shift(Opcode opcode, DType type, uint64_t x, uint64_t by) {
  const bool is_too_far = by >= static_cast<uint64_t>(FactsOf(type).bits);
  if (opcode == Opcode::kShiftLeft) return is_too_far ? 0 : x << by;
  if (!IsSigned(type)) return is_too_far ? 0 : x >> by;
  return static_cast<uint64_t>(static_cast<int64_t>(x) >> (is_too_far ? 63 : by));
}

bool IsLess(DType type, uint64_t x, uint64_t y) {
  return IsSigned(type) ? static_cast<int64_t>(x) < static_cast<int64_t>(y) : x < y;
}

uint64_t BinaryInteger(Opcode opcode, DType type, uint64_t x, uint64_t y) {
  switch (opcode) {
    case Opcode::kAdd:
      return x + y;
    case Opcode::kSubtract:
      return x - y;
    case Opcode::kMultiply:
      return x * y;
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kFloorDivide:
    case Opcode::kFloorRemainder:
      return IsSigned(type) ? DivideSigned(opcode, static_cast<int64_t>(x), static_cast<int64_t>(y))
                            : DivideUnsigned(opcode, x, y);
    case Opcode::kMinimum:
      return IsLess(type, x, y) ? x : y;
    case Opcode::kMaximum:
      return IsLess(type, x, y) ? y : x;
    case Opcode::kAnd:
      return x & y;
    case Opcode::kOr:
      return x | y;
    case Opcode::kXor:
      return x ^ y;
    default:
      return Shift(opcode, type, x, y);
  }
}

bool IsComparison(Opcode opcode) { return opcode >= Opcode::kLess && opcode <= Opcode::kNotEqual; }

bool Compare(Opcode opcode, bool is_less, bool is_equal) {
  switch (opcode) {
    case Opcode::kLess:
      return is_less;
    case Opcode::kLessOrEqual:
      return is_less || is_equal;
    case Opcode::kEqual:
      return is_equal;
    default:
      return !is_equal;
  }
}

}  // namespace

Scalar ScalarOf(DType type, uint64_t bits) {
  if (IsFloat(type)) return {FromBits(type, bits), 0};
  return Integer(type, bits);
}

uint64_t BitsOf(DType type, const Scalar& value) {
  return IsFloat(type) ? ToBits(type, value.number) : value.integer;
}

Scalar CastTo(DType to, DType from, const Scalar& value) {
  if (!IsFloat(from)) {
    if (!IsFloat(to)) return Integer(to, value.integer);
    return Float(to, IsSigned(from) ? static_cast<double>(static_cast<int64_t>(value.integer))
                                    : static_cast<double>(value.integer));
  }
  if (IsFloat(to)) return Float(to, value.number);
  if (to == DType::kBool) return Bool(value.number != 0);
  return Integer(to, Truncated(to, value.number));
}

Scalar Unary(Opcode opcode, DType to, DType from, const Scalar& value) {
  switch (opcode) {
    case Opcode::kCast:
      return CastTo(to, from, value);
    case Opcode::kBitCast:
      return ScalarOf(to, BitsOf(from, value));
    case Opcode::kIsNan:
      return Bool(std::isnan(value.number));
    case Opcode::kIsInfinite:
      return Bool(std::isinf(value.number));
    default:
      break;
  }
  if (IsFloat(to)) return Float(to, UnaryNumber(opcode, value.number));
  return Integer(to, UnaryInteger(opcode, to, value.integer));
}

Scalar Binary(Opcode opcode, DType type, const Scalar& one, const Scalar& other) {
  if (IsFloat(type)) {
    const double x = one.number;
    const double y = other.number;
    if (IsComparison(opcode)) return Bool(Compare(opcode, x < y, x == y));
    return Float(type, BinaryNumber(opcode, x, y));
  }
  const uint64_t x = one.integer;
  const uint64_t y = other.integer;
  if (IsComparison(opcode)) return Bool(Compare(opcode, IsLess(type, x, y), x == y));
  return Integer(type, BinaryInteger(opcode, type, x, y));
}

}  // namespace kiln::graph
