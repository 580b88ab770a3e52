#include "client/graph/emit/c_expression.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>

namespace kiln::graph {
namespace {

bool IsSigned(DType type) { return FactsOf(type).kind == DTypeClass::kSigned; }
bool IsNarrowFloat(DType type) { return IsFloat(type) && FactsOf(type).bits < 32; }

// The unsigned type of as many bits: its arithmetic wraps around.
std::string_view UnsignedOf(DType type) {
  switch (FactsOf(type).bits) {
    case 8:
      return "u8";
    case 16:
      return "u16";
    case 32:
      return "u32";
    default:
      return "u64";
  }
}

// A literal; in parentheses where it is negative.
std::string FiniteText(std::string text, std::string_view suffix) {
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += suffix;
  return text[0] == '-' ? "(" + text + ")" : text;
}

std::string FloatText(const CDialect& dialect, DType type, double number) {
  const auto single = static_cast<float>(number);
  if (type == DType::kF64) {
    if (std::isfinite(number)) return FiniteText(fmt::format("{}", number), "");
    return fmt::format("{}((u64){:#x})", dialect.f64_of_bits, std::bit_cast<uint64_t>(number));
  }
  if (std::isfinite(single)) return FiniteText(fmt::format("{}", single), "f");
  return fmt::format("{}((u32){:#x})", dialect.f32_of_bits, std::bit_cast<uint32_t>(single));
}

std::string IntegerText(DType type, int64_t integer) {
  if (type == DType::kBool) return integer != 0 ? "true" : "false";
  if (!IsSigned(type)) {
    const int unused = 64 - FactsOf(type).bits;
    return fmt::format("({}){:#x}", CType(type),
                       static_cast<uint64_t>(integer) << unused >> unused);
  }
  if (integer == INT64_MIN) return "((i64)-9223372036854775807 - 1)";
  return fmt::format("({}){}", CType(type), integer);
}

// Functions that have one name in all dialects, apart from a suffix for f32.
std::string_view MathName(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbsolute:
      return "fabs";
    case Opcode::kSquareRoot:
      return "sqrt";
    case Opcode::kReciprocalSquareRoot:
      return "rsqrt";
    case Opcode::kExponential:
      return "exp";
    case Opcode::kExponential2:
      return "exp2";
    case Opcode::kLogarithm:
      return "log";
    case Opcode::kLogarithm2:
      return "log2";
    case Opcode::kSine:
      return "sin";
    case Opcode::kCosine:
      return "cos";
    case Opcode::kTangent:
      return "tan";
    case Opcode::kArcSine:
      return "asin";
    case Opcode::kArcCosine:
      return "acos";
    case Opcode::kArcTangent:
      return "atan";
    case Opcode::kHyperbolicSine:
      return "sinh";
    case Opcode::kHyperbolicCosine:
      return "cosh";
    case Opcode::kHyperbolicTangent:
      return "tanh";
    case Opcode::kArcHyperbolicSine:
      return "asinh";
    case Opcode::kArcHyperbolicCosine:
      return "acosh";
    case Opcode::kArcHyperbolicTangent:
      return "atanh";
    case Opcode::kErrorFunction:
      return "erf";
    case Opcode::kFloor:
      return "floor";
    case Opcode::kCeiling:
      return "ceil";
    case Opcode::kTruncate:
      return "trunc";
    case Opcode::kRoundToEven:
      return "rint";
    case Opcode::kRemainder:
      return "fmod";
    case Opcode::kPower:
      return "pow";
    case Opcode::kArcTangent2:
      return "atan2";
    default:
      return "fma";
  }
}

std::string_view OperatorText(Opcode opcode, DType type) {
  const bool is_bool = type == DType::kBool;
  switch (opcode) {
    case Opcode::kAdd:
      return "+";
    case Opcode::kSubtract:
      return "-";
    case Opcode::kMultiply:
      return "*";
    case Opcode::kDivide:
      return "/";
    case Opcode::kAnd:
      return is_bool ? "&&" : "&";
    case Opcode::kOr:
      return is_bool ? "||" : "|";
    case Opcode::kXor:
      return is_bool ? "!=" : "^";
    case Opcode::kLess:
      return "<";
    case Opcode::kLessOrEqual:
      return "<=";
    case Opcode::kEqual:
      return "==";
    default:
      return "!=";
  }
}

// Processors trap at x / 0 and at INT_MIN / -1; the text gives 0 and what wraps around.
std::string Divide(Opcode opcode, DType type, const std::string& x, const std::string& y) {
  const std::string_view c_type = CType(type);
  const bool is_quotient = opcode == Opcode::kDivide || opcode == Opcode::kFloorDivide;
  if (!IsSigned(type)) {
    return fmt::format("({})({} == 0 ? 0 : {} {} {})", c_type, y, x, is_quotient ? '/' : '%', y);
  }
  const bool rounds_down = opcode == Opcode::kFloorDivide || opcode == Opcode::kFloorRemainder;
  const std::string corrects = fmt::format("({0} % {1} != 0 && ({0} < 0) != ({1} < 0))", x, y);
  std::string result = fmt::format("{} {} {}", x, is_quotient ? '/' : '%', y);
  if (rounds_down)
    result += is_quotient ? " - " + corrects : fmt::format(" + ({} ? {} : 0)", corrects, y);
  const std::string by_minus_one =
      is_quotient ? fmt::format("({})(0 - ({}){})", c_type, UnsignedOf(type), x) : "0";
  return fmt::format("({})({} == 0 ? 0 : {} == -1 ? {} : {})", c_type, y, y, by_minus_one, result);
}

std::string Shift(Opcode opcode, DType type, const std::string& x, const std::string& y) {
  const int bits = FactsOf(type).bits;
  const std::string_view wide = bits == 64 ? "u64" : "u32";
  const std::string is_near = fmt::format("({}){} < {}", wide, y, bits);
  if (opcode == Opcode::kShiftLeft) {
    return fmt::format("({})({} ? ({}){} << {} : 0)", CType(type), is_near, wide, x, y);
  }
  if (!IsSigned(type)) return fmt::format("({})({} ? {} >> {} : 0)", CType(type), is_near, x, y);
  return fmt::format("({})({} >> ({} ? {} : {}))", CType(type), x, is_near, y, bits - 1);
}

}  // namespace

std::string_view CType(DType type) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "i8";
    case DType::kI16:
      return "i16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    default:
      return UnsignedOf(type);
  }
}

std::string_view CStorageType(DType type) { return type == DType::kBool ? "u8" : CType(type); }

std::string CConstant(const CDialect& dialect, const Instruction& constant) {
  if (!IsFloat(constant.type)) return IntegerText(constant.type, constant.integer);
  const DType compute = FactsOf(constant.type).compute;
  return CCast(constant.type, compute, FloatText(dialect, compute, constant.number));
}

std::string CIdentity(const CDialect& dialect, Reduction reduction, DType type) {
  const bool is_least = reduction == Reduction::kMaximum;
  if (reduction == Reduction::kMinimum || is_least) {
    if (IsFloat(type)) return FloatText(dialect, type, is_least ? -INFINITY : INFINITY);
    const uint64_t sign = 1ULL << (FactsOf(type).bits - 1);
    if (!IsSigned(type)) return IntegerText(type, is_least ? 0 : -1);
    return IntegerText(type, static_cast<int64_t>(is_least ? 0 - sign : sign - 1));
  }
  if (reduction == Reduction::kAnd) return IntegerText(type, -1);
  const int start = reduction == Reduction::kProduct ? 1 : 0;
  return IsFloat(type) ? FloatText(dialect, type, start) : IntegerText(type, start);
}

std::string CSize(const Size& size, const std::vector<Symbol>& symbols) {
  std::string text;
  for (const Size::Term& term : size.terms()) {
    if (!text.empty()) text += " + ";
    text += IntegerText(DType::kI64, term.factor);
    for (const int symbol : term.symbols) {
      text += " * " + CSymbol(symbols[static_cast<size_t>(symbol)].name);
    }
  }
  return text.empty()                                  ? "(i64)0"
         : size.terms().size() == 1 && size.Constant() ? text
                                                       : "(" + text + ")";
}

std::string CSymbol(std::string_view name) { return fmt::format("n_{}", name); }
std::string CBuffer(std::string_view name) { return fmt::format("b_{}", name); }

std::string CCast(DType to, DType from, const std::string& x) {
  if (to == from) return x;
  if (IsNarrowFloat(from)) {
    return CCast(to, DType::kF32, fmt::format("kiln_{}_to_f32({})", FactsOf(from).name, x));
  }
  if (to == DType::kBool) return fmt::format("({} != 0)", x);
  if (!IsNarrowFloat(to)) return fmt::format("({}){}", CType(to), x);
  const std::string single = from == DType::kF32   ? x
                             : from == DType::kF64 ? fmt::format("kiln_f64_to_odd_f32({})", x)
                                                   : fmt::format("(f32){}", x);
  return fmt::format("kiln_f32_to_{}({})", FactsOf(to).name, single);
}

std::string CExpression::Function(Opcode opcode, DType type, std::string_view name,
                                  const std::string& operands) const {
  if (type == DType::kF64) return fmt::format("{}({})", name, operands);
  if (fast_) {
    for (const auto& [fast, fast_name] : dialect_.fast_functions) {
      if (fast == opcode) return fmt::format("{}({})", fast_name, operands);
    }
  }
  return fmt::format("{}{}({})", name, dialect_.f32_suffix, operands);
}

std::string CExpression::Unary(Opcode opcode, DType type, const std::string& x) const {
  switch (opcode) {
    case Opcode::kNegate:
      if (IsFloat(type)) return "-" + x;
      return fmt::format("({})(0 - ({}){})", CType(type), UnsignedOf(type), x);
    case Opcode::kAbsolute:
      if (IsFloat(type)) break;
      if (!IsSigned(type)) return x;
      return fmt::format("({0})({2} < 0 ? 0 - ({1}){2} : ({1}){2})", CType(type), UnsignedOf(type),
                         x);
    case Opcode::kNot:
      return type == DType::kBool ? "!" + x : fmt::format("({})~{}", CType(type), x);
    case Opcode::kIsNan:
      return fmt::format("{} != {}", x, x);
    case Opcode::kIsInfinite:
      return fmt::format("fabs{}({}) == {}", type == DType::kF32 ? dialect_.f32_suffix : "", x,
                         FloatText(dialect_, type, INFINITY));
    default:
      break;
  }
  return Function(opcode, type, MathName(opcode), x);
}

std::string CExpression::Binary(Opcode opcode, DType type, const std::string& x,
                                const std::string& y) const {
  const bool is_float = IsFloat(type);
  switch (opcode) {
    case Opcode::kMinimum:
    case Opcode::kMaximum: {
      const char order = opcode == Opcode::kMinimum ? '<' : '>';
      return is_float ? fmt::format("({0} {2} {1} || {0} != {0}) ? {0} : {1}", x, y, order)
                      : fmt::format("{0} {2} {1} ? {0} : {1}", x, y, order);
    }
    case Opcode::kDivide:
      if (is_float && fast_ && type == DType::kF32 && !dialect_.fast_functions.empty()) break;
      if (is_float) return fmt::format("{} / {}", x, y);
      return Divide(opcode, type, x, y);
    case Opcode::kRemainder:
      if (is_float) break;
      return Divide(opcode, type, x, y);
    case Opcode::kFloorDivide:
    case Opcode::kFloorRemainder:
      return Divide(opcode, type, x, y);
    case Opcode::kPower:
    case Opcode::kArcTangent2:
      break;
    case Opcode::kShiftLeft:
    case Opcode::kShiftRight:
      return Shift(opcode, type, x, y);
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
      if (is_float) return fmt::format("{} {} {}", x, OperatorText(opcode, type), y);
      // u8 and u16 are computed as int, where a product of two u16 may overflow.
      return fmt::format("({0})(({1}){2} {3} ({1}){4})", CType(type),
                         FactsOf(type).bits == 64 ? "u64" : "u32", x, OperatorText(opcode, type),
                         y);
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      if (type == DType::kBool) return fmt::format("{} {} {}", x, OperatorText(opcode, type), y);
      return fmt::format("({})({} {} {})", CType(type), x, OperatorText(opcode, type), y);
    default:
      return fmt::format("{} {} {}", x, OperatorText(opcode, type), y);
  }
  return Function(opcode, type, MathName(opcode), fmt::format("{}, {}", x, y));
}

std::string CExpression::BitCast(DType to, DType from, const std::string& x) const {
  if (to == from) return x;
  std::string bits = x;
  if (from == DType::kF32) bits = fmt::format("{}({})", dialect_.bits_of_f32, x);
  if (from == DType::kF64) bits = fmt::format("{}({})", dialect_.bits_of_f64, x);
  if (to == DType::kF32) return fmt::format("{}((u32){})", dialect_.f32_of_bits, bits);
  if (to == DType::kF64) return fmt::format("{}((u64){})", dialect_.f64_of_bits, bits);
  if (to == DType::kBool) return fmt::format("({} != 0)", bits);
  return fmt::format("({}){}", CType(to), bits);
}

std::string CExpression::Of(const Instruction& instruction, DType operand_type,
                            const std::vector<std::string>& operands) const {
  const DType type = instruction.type;
  switch (instruction.opcode) {
    case Opcode::kCast:
      return CCast(type, operand_type, operands[0]);
    case Opcode::kBitCast:
      return BitCast(type, operand_type, operands[0]);
    case Opcode::kSelect:
      return fmt::format("{} ? {} : {}", operands[0], operands[1], operands[2]);
    case Opcode::kMultiplyAdd:
      if (!IsFloat(type)) {
        return Binary(Opcode::kAdd, type, Binary(Opcode::kMultiply, type, operands[0], operands[1]),
                      operands[2]);
      }
      return Function(instruction.opcode, type, MathName(instruction.opcode),
                      fmt::format("{}, {}, {}", operands[0], operands[1], operands[2]));
    default:
      break;
  }
  return operands.size() == 1 ? Unary(instruction.opcode, operand_type, operands[0])
                              : Binary(instruction.opcode, operand_type, operands[0], operands[1]);
}

}  // namespace kiln::graph
