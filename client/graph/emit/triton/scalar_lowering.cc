#include "client/graph/emit/triton/scalar_lowering.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "client/graph/emit/triton/fp8.h"

namespace kiln::graph::triton {
namespace {

bool IsUnsigned(DType type) {
  return FactsOf(type).kind == DTypeClass::kUnsigned || type == DType::kBool;
}

struct Function {
  Opcode opcode;
  std::string_view library;  // "tanh" of "__nv_tanhf" and "__ocml_tanh_f32"
  // Triton's own operation: an approximation of f32, unless it is exact.
  std::string_view own = {};
  bool is_exact = false;
};

constexpr Function kFunctions[] = {
    {Opcode::kSquareRoot, "sqrt", "math.sqrt"},
    {Opcode::kReciprocalSquareRoot, "rsqrt", "math.rsqrt"},
    {Opcode::kExponential, "exp", "math.exp"},
    {Opcode::kExponential2, "exp2", "math.exp2"},
    {Opcode::kLogarithm, "log", "math.log"},
    {Opcode::kLogarithm2, "log2", "math.log2"},
    {Opcode::kSine, "sin", "math.sin"},
    {Opcode::kCosine, "cos", "math.cos"},
    {Opcode::kTangent, "tan"},
    {Opcode::kArcSine, "asin"},
    {Opcode::kArcCosine, "acos"},
    {Opcode::kArcTangent, "atan"},
    {Opcode::kHyperbolicSine, "sinh"},
    {Opcode::kHyperbolicCosine, "cosh"},
    {Opcode::kHyperbolicTangent, "tanh"},
    {Opcode::kArcHyperbolicSine, "asinh"},
    {Opcode::kArcHyperbolicCosine, "acosh"},
    {Opcode::kArcHyperbolicTangent, "atanh"},
    {Opcode::kErrorFunction, "erf", "math.erf"},
    {Opcode::kFloor, "floor", "math.floor", true},
    {Opcode::kCeiling, "ceil", "math.ceil", true},
    {Opcode::kTruncate, "trunc"},
    {Opcode::kRoundToEven, "rint"},
};

struct Arithmetic {
  Opcode opcode;
  std::string_view on_floats;
  std::string_view on_signed;
  std::string_view on_unsigned;
};

constexpr Arithmetic kArithmetic[] = {
    {Opcode::kAdd, "arith.addf", "arith.addi", "arith.addi"},
    {Opcode::kSubtract, "arith.subf", "arith.subi", "arith.subi"},
    {Opcode::kMultiply, "arith.mulf", "arith.muli", "arith.muli"},
    {Opcode::kMinimum, "arith.minimumf", "arith.minsi", "arith.minui"},
    {Opcode::kMaximum, "arith.maximumf", "arith.maxsi", "arith.maxui"},
    {Opcode::kAnd, "", "arith.andi", "arith.andi"},
    {Opcode::kOr, "", "arith.ori", "arith.ori"},
    {Opcode::kXor, "", "arith.xori", "arith.xori"},
};

std::string_view OperationOf(Opcode opcode, DType type) {
  for (const Arithmetic& row : kArithmetic) {
    if (row.opcode != opcode) continue;
    if (IsFloat(type)) return row.on_floats;
    return IsUnsigned(type) ? row.on_unsigned : row.on_signed;
  }
  return {};
}

}  // namespace

Scalar ValueScalar(DType type) { return IsFp8(type) ? Scalar::kI8 : ScalarOf(type); }

Scalar MemoryScalar(DType type) { return type == DType::kBool ? Scalar::kI8 : ValueScalar(type); }

Value ScalarLowering::Number(Value like, double number) {
  return ir_.Float(ir_.TypeOf(like), number);
}

Value ScalarLowering::Whole(Value like, int64_t number) {
  return ir_.Integer(ir_.TypeOf(like), number);
}

Value ScalarLowering::Constant(const Instruction& constant, const std::vector<int64_t>& shape) {
  const Type type{ValueScalar(constant.type), shape};
  if (IsFp8(constant.type)) return ir_.Integer(type, Fp8Bits(constant.type, constant.number));
  if (IsFloat(constant.type)) return ir_.Float(type, constant.number);
  return ir_.Integer(type, constant.integer);
}

Value ScalarLowering::ToMemory(DType type, Value value) {
  return type == DType::kBool ? ir_.Cast("arith.extui", value, Scalar::kI8) : value;
}

Value ScalarLowering::FromMemory(DType type, Value value) {
  return type == DType::kBool ? ir_.Compare("ne", value, Whole(value, 0)) : value;
}

Value ScalarLowering::Compute(const Instruction& instruction, DType from,
                              const std::vector<Value>& operands) {
  switch (instruction.opcode) {
    case Opcode::kSelect:
      return ir_.Select(operands[0], operands[1], operands[2]);
    case Opcode::kMultiplyAdd:
      if (IsFloat(from)) return ir_.MultiplyAdd(operands[0], operands[1], operands[2]);
      return ir_.Binary("arith.addi", ir_.Binary("arith.muli", operands[0], operands[1]),
                        operands[2]);
    default:
      break;
  }
  if (operands.size() == 1) return Unary(instruction.opcode, from, instruction.type, operands[0]);
  return Binary(instruction.opcode, from, operands[0], operands[1]);
}

Value ScalarLowering::Unary(Opcode opcode, DType from, DType to, Value value) {
  switch (opcode) {
    case Opcode::kCast:
      return Cast(from, to, value);
    case Opcode::kBitCast:
      return ValueScalar(from) == ValueScalar(to) ? value
             : from == DType::kBool || to == DType::kBool
                 ? FromMemory(to, ToMemory(from, value))
                 : ir_.Cast("tt.bitcast", value, ValueScalar(to));
    case Opcode::kNot:
      return ir_.Binary("arith.xori", value, Whole(value, -1));
    case Opcode::kIsNan:
      return ir_.Compare("uno", value, value);
    case Opcode::kIsInfinite: {
      const Value magnitude = ir_.Unary("math.absf", value);
      return ir_.Compare("oeq", magnitude, Number(value, INFINITY));
    }
    case Opcode::kNegate:
      // Not 0 - x: that of 0 is 0.
      return IsFloat(from) ? ir_.Binary("arith.subf", Number(value, -0.0), value)
                           : ir_.Binary("arith.subi", Whole(value, 0), value);
    case Opcode::kAbsolute:
      if (IsUnsigned(from)) return value;
      return ir_.Unary(IsFloat(from) ? "math.absf" : "math.absi", value);
    default:
      return FloatUnary(opcode, from, value);
  }
}

Value ScalarLowering::FloatUnary(Opcode opcode, DType type, Value value) {
  const bool is_narrow = type == DType::kF32;
  if (opcode == Opcode::kSquareRoot && is_narrow && !options_.fast_math) {
    return ir_.Unary("tt.precise_sqrt", value);
  }
  for (const Function& function : kFunctions) {
    if (function.opcode != opcode) continue;
    const bool uses_own = function.is_exact || (options_.fast_math && is_narrow);
    if (!function.own.empty() && uses_own) return ir_.Unary(function.own, value);
    return Library(function.library, type, {value});
  }
  return ir_.Unary(fmt::format("opcode {}", static_cast<int>(opcode)), value);
}

Value ScalarLowering::Library(std::string_view function, DType type,
                              const std::vector<Value>& operands) {
  const bool is_narrow = type == DType::kF32;
  const std::string symbol = options_.backend == "hip"
                                 ? fmt::format("__ocml_{}_{}", function, is_narrow ? "f32" : "f64")
                                 : fmt::format("__nv_{}{}", function, is_narrow ? "f" : "");
  return ir_.External(symbol, operands, ir_.TypeOf(operands[0]));
}

Value ScalarLowering::Binary(Opcode opcode, DType type, Value left, Value right) {
  if (opcode >= Opcode::kLess && opcode <= Opcode::kNotEqual) {
    return Compare(opcode, type, left, right);
  }
  if (const std::string_view own = OperationOf(opcode, type); !own.empty()) {
    return ir_.Binary(own, left, right);
  }
  return IsFloat(type) ? FloatBinary(opcode, type, left, right)
                       : IntegerBinary(opcode, type, left, right);
}

Value ScalarLowering::FloatBinary(Opcode opcode, DType type, Value left, Value right) {
  switch (opcode) {
    case Opcode::kDivide:
      return ir_.Binary(
          type == DType::kF32 && !options_.fast_math ? "tt.precise_divf" : "arith.divf", left,
          right);
    case Opcode::kRemainder:
      return Library("fmod", type, {left, right});
    case Opcode::kPower:
      return Library("pow", type, {left, right});
    case Opcode::kArcTangent2:
      return Library("atan2", type, {left, right});
    default:
      return ir_.Binary(fmt::format("opcode {}", static_cast<int>(opcode)), left, right);
  }
}

Value ScalarLowering::IntegerBinary(Opcode opcode, DType type, Value left, Value right) {
  switch (opcode) {
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kFloorDivide:
    case Opcode::kFloorRemainder:
      return Divide(opcode, type, left, right);
    case Opcode::kShiftLeft:
    case Opcode::kShiftRight:
      return Shift(opcode, type, left, right);
    default:
      return ir_.Binary(fmt::format("opcode {}", static_cast<int>(opcode)), left, right);
  }
}

// A division by zero, and of the smallest number by -1, may do anything in LLVM IR: the divisor is
// 1 then. That gives any value, and the smallest number again.
Value ScalarLowering::Divide(Opcode opcode, DType type, Value left, Value right) {
  const Value zero = Whole(right, 0);
  const Value one = Whole(right, 1);
  Value divisor = ir_.Select(ir_.Compare("eq", right, zero), one, right);
  const bool divides = opcode == Opcode::kDivide || opcode == Opcode::kFloorDivide;
  if (IsUnsigned(type)) return ir_.Binary(divides ? "arith.divui" : "arith.remui", left, divisor);
  const Value smallest = Whole(left, int64_t{1} << (FactsOf(type).bits - 1));
  const Value is_smallest = ir_.Compare("eq", left, smallest);
  const Value overflows =
      ir_.Binary("arith.andi", is_smallest, ir_.Compare("eq", right, Whole(right, -1)));
  divisor = ir_.Select(overflows, one, divisor);
  if (opcode == Opcode::kDivide) return ir_.Binary("arith.divsi", left, divisor);
  const Value remainder = ir_.Binary("arith.remsi", left, divisor);
  if (opcode == Opcode::kRemainder) return remainder;
  // Rounding down differs where there is a remainder whose sign is not the divisor's.
  const Value differs = ir_.Compare("slt", ir_.Binary("arith.xori", remainder, divisor), zero);
  const Value corrects = ir_.Binary("arith.andi", ir_.Compare("ne", remainder, zero), differs);
  if (divides) {
    const Value quotient = ir_.Binary("arith.divsi", left, divisor);
    return ir_.Binary("arith.subi", quotient, ir_.Select(corrects, one, zero));
  }
  return ir_.Binary("arith.addi", remainder, ir_.Select(corrects, divisor, zero));
}

Value ScalarLowering::Shift(Opcode opcode, DType type, Value value, Value amount) {
  const int64_t bits = FactsOf(type).bits;
  const Value largest = Whole(amount, bits - 1);
  const Value is_too_far = ir_.Compare("ugt", amount, largest);
  const Value within = ir_.Select(is_too_far, largest, amount);
  if (opcode == Opcode::kShiftRight && !IsUnsigned(type)) {
    return ir_.Binary("arith.shrsi", value, within);
  }
  const Value shifted =
      ir_.Binary(opcode == Opcode::kShiftLeft ? "arith.shli" : "arith.shrui", value, within);
  return ir_.Select(is_too_far, Whole(value, 0), shifted);
}

Value ScalarLowering::Compare(Opcode opcode, DType type, Value left, Value right) {
  const bool is_float = IsFloat(type);
  const bool is_unsigned = IsUnsigned(type);
  switch (opcode) {
    case Opcode::kLess:
      return ir_.Compare(is_float ? "olt" : is_unsigned ? "ult" : "slt", left, right);
    case Opcode::kLessOrEqual:
      return ir_.Compare(is_float ? "ole" : is_unsigned ? "ule" : "sle", left, right);
    case Opcode::kEqual:
      return ir_.Compare(is_float ? "oeq" : "eq", left, right);
    default:
      return ir_.Compare(is_float ? "une" : "ne", left, right);
  }
}

Value ScalarLowering::Cast(DType from, DType to, Value value) {
  if (from == to) return value;
  if (IsFp8(from)) return Cast(DType::kF32, to, Fp8ToFloat(ir_, from, value));
  if (IsFp8(to)) return FloatToFp8(ir_, to, Cast(from, DType::kF32, value));
  if (to == DType::kBool) {
    return IsFloat(from) ? ir_.Compare("une", value, Number(value, 0))
                         : ir_.Compare("ne", value, Whole(value, 0));
  }
  return IsFloat(to) ? ToFloat(from, to, value) : ToInteger(from, to, value);
}

Value ScalarLowering::ToFloat(DType from, DType to, Value value) {
  // Triton converts f16 and bf16 from and to f32 alone; f64 to f16 it knows, and rounds once.
  const bool is_direct = from == DType::kF32 || to == DType::kF32 ||
                         (from == DType::kF64 && to == DType::kF16) ||
                         (!IsFloat(from) && to == DType::kF64);
  if (!is_direct) return ToFloat(DType::kF32, to, ToFloat(from, DType::kF32, value));
  if (!IsFloat(from)) {
    return ir_.Cast(IsUnsigned(from) ? "arith.uitofp" : "arith.sitofp", value, ScalarOf(to));
  }
  if (from == to) return value;
  return ir_.Cast(FactsOf(to).bits > FactsOf(from).bits ? "arith.extf" : "arith.truncf", value,
                  ScalarOf(to));
}

Value ScalarLowering::ToInteger(DType from, DType to, Value value) {
  const Scalar scalar = ValueScalar(to);
  if (IsFloat(from)) {
    if (FactsOf(from).bits < 32)
      return ToInteger(DType::kF32, to, ToFloat(from, DType::kF32, value));
    // GPUs convert to 32 and 64 bits. Every narrower number fits an i32.
    if (BitsOf(scalar) < 32) {
      return ToInteger(DType::kI32, to, ir_.Cast("arith.fptosi", value, Scalar::kI32));
    }
    return ir_.Cast(IsUnsigned(to) ? "arith.fptoui" : "arith.fptosi", value, scalar);
  }
  const int growth = BitsOf(scalar) - BitsOf(ValueScalar(from));
  if (growth == 0) return value;
  if (growth < 0) return ir_.Cast("arith.trunci", value, scalar);
  return ir_.Cast(IsUnsigned(from) ? "arith.extui" : "arith.extsi", value, scalar);
}

}  // namespace kiln::graph::triton
