#include "client/graph/emit/ptx_body.h"

#include <bit>

#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

absl::Status Lacks(std::string_view what, DType type) {
  return MissingInPtx(fmt::format("{} of {}", what, FactsOf(type).name));
}

bool IsSignedType(DType type) { return FactsOf(type).kind == DTypeClass::kSigned; }
bool IsHalf(DType type) { return type == DType::kF16 || type == DType::kBF16; }
bool IsFp8(DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; }

// The type of an instruction for which bits alone count.
std::string_view Untyped(DType type) {
  if (type == DType::kF32) return "f32";
  if (type == DType::kF64) return "f64";
  if (IsHalf(type)) return "b16";
  return FactsOf(type).bits == 64 ? "b64" : "b32";
}

std::string_view Comparison(Opcode opcode, bool is_float) {
  switch (opcode) {
    case Opcode::kLess:
      return "lt";
    case Opcode::kLessOrEqual:
      return "le";
    case Opcode::kEqual:
      return "eq";
    default:
      return is_float ? "neu" : "ne";
  }
}

std::string_view Arithmetic(Opcode opcode, bool is_float) {
  switch (opcode) {
    case Opcode::kAdd:
      return is_float ? "add.rn" : "add";
    case Opcode::kSubtract:
      return is_float ? "sub.rn" : "sub";
    case Opcode::kMultiply:
      return is_float ? "mul.rn" : "mul.lo";
    case Opcode::kDivide:
      return is_float ? "div.rn" : "div";
    case Opcode::kRemainder:
      return is_float ? "" : "rem";
    default:
      return "";
  }
}

std::string_view Rounding(Opcode opcode) {
  switch (opcode) {
    case Opcode::kFloor:
      return "rmi";
    case Opcode::kCeiling:
      return "rpi";
    case Opcode::kTruncate:
      return "rzi";
    default:
      return "rni";
  }
}

}  // namespace

absl::Status MissingInPtx(std::string_view what) {
  return absl::UnimplementedError(fmt::format("PTX: {}; take another back end", what));
}

std::string_view PtxType(DType type) {
  switch (type) {
    case DType::kBool:
      return "pred";
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return "s32";
    case DType::kI64:
      return "s64";
    case DType::kU64:
      return "u64";
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    default:
      return "u32";
  }
}

std::string PtxBody::Register(DType type, size_t number) {
  const char letter = type == DType::kBool       ? 'p'
                      : type == DType::kF32      ? 'f'
                      : type == DType::kF64      ? 'g'
                      : IsHalf(type)             ? 'h'
                      : FactsOf(type).bits == 64 ? 'd'
                                                 : 'r';
  std::string name = {'%', letter};
  return name.append(fmt::format_int(number).c_str());
}

std::string PtxBody::Declarations() const {
  return fmt::format(
      "  .reg .pred %p<{0}>;\n  .reg .b16 %h<{0}>;\n  .reg .b32 %r<{0}>;\n  .reg .b64 %d<{0}>;\n"
      "  .reg .f32 %f<{0}>;\n  .reg .f64 %g<{0}>;\n",
      next_);
}

void PtxBody::Constant(const std::string& to, const Instruction& constant) {
  const DType type = constant.type;
  if (type == DType::kBool)
    return Line("setp.ne.s32 {}, {}, 0;", to, constant.integer != 0 ? 1 : 0);
  if (type == DType::kF64) {
    return Line("mov.f64 {}, 0d{:016x};", to, std::bit_cast<uint64_t>(constant.number));
  }
  if (IsFloat(type)) {
    const std::string single = type == DType::kF32 ? to : New(DType::kF32);
    Line("mov.f32 {}, 0f{:08x};", single,
         std::bit_cast<uint32_t>(static_cast<float>(constant.number)));
    if (type != DType::kF32) Line("cvt.rn.{}.f32 {}, {};", FactsOf(type).name, to, single);
    return;
  }
  const bool is_wide = FactsOf(type).bits == 64;
  Line("mov.b{} {}, {};", is_wide ? 64 : 32, to, constant.integer);
  Normalize(type, to);
}

void PtxBody::Normalize(DType type, const std::string& value) {
  const int bits = FactsOf(type).bits;
  if (bits >= 32) return;
  if (IsSignedType(type)) return Line("cvt.s32.s{0} {1}, {1};", bits, value);
  Line("and.b32 {0}, {0}, {1};", value, (1 << bits) - 1);
}

absl::Status PtxBody::Cast(DType to_type, const std::string& to, DType from_type,
                           const std::string& from) {
  if (to_type == from_type) {
    Line("mov.{} {}, {};", from_type == DType::kBool ? "pred" : Untyped(from_type), to, from);
    return absl::OkStatus();
  }
  if (IsFp8(from_type)) return Lacks("cast", from_type);
  if (IsFp8(to_type)) return Lacks("cast", to_type);
  const bool is_direct =
      from_type == DType::kF32 || (from_type == DType::kF64 && to_type == DType::kF16);
  if (IsHalf(to_type) && !is_direct) {
    // By f32, where that rounds to nothing that a second rounding could get wrong.
    if (from_type == DType::kF64) return Lacks("cast to bf16", from_type);
    const std::string single = New(DType::kF32);
    const absl::Status status = Cast(DType::kF32, single, from_type, from);
    return status.ok() ? Cast(to_type, to, DType::kF32, single) : status;
  }
  if (IsHalf(to_type)) {
    Line("cvt.rn.{}.{} {}, {};", FactsOf(to_type).name, PtxType(from_type), to, from);
    return absl::OkStatus();
  }
  if (IsHalf(from_type)) {
    const std::string single = to_type == DType::kF32 ? to : New(DType::kF32);
    if (from_type == DType::kF16) {
      Line("cvt.f32.f16 {}, {};", single, from);
    } else {
      Line("mov.b32 {}, {{0, {}}};", single, from);
    }
    return single == to ? absl::OkStatus() : Cast(to_type, to, DType::kF32, single);
  }
  if (to_type == DType::kBool) {
    Line("setp.{}.{} {}, {}, {};", IsFloat(from_type) ? "neu" : "ne", PtxType(from_type), to, from,
         from_type == DType::kF32   ? "0f00000000"
         : from_type == DType::kF64 ? "0d0000000000000000"
                                    : "0");
  } else if (from_type == DType::kBool) {
    Line("selp.{} {}, {}, {};", Untyped(to_type), to,
         to_type == DType::kF32   ? "0f3f800000, 0f00000000"
         : to_type == DType::kF64 ? "0d3ff0000000000000, 0d0000000000000000"
                                  : "1, 0",
         from);
  } else if (IsFloat(to_type) || IsFloat(from_type)) {
    const bool widens = to_type == DType::kF64 && from_type == DType::kF32;
    const std::string_view rounding = widens ? "" : IsFloat(to_type) ? ".rn" : ".rzi";
    Line("cvt{}.{}.{} {}, {};", rounding, PtxType(to_type), PtxType(from_type), to, from);
    if (!IsFloat(to_type)) Normalize(to_type, to);
  } else {
    const bool keeps_class = Untyped(to_type) == Untyped(from_type);
    if (keeps_class) {
      Line("mov.{} {}, {};", Untyped(to_type), to, from);
    } else {
      Line("cvt.{}.{} {}, {};", PtxType(to_type), PtxType(from_type), to, from);
    }
    Normalize(to_type, to);
  }
  return absl::OkStatus();
}

void PtxBody::BitCast(DType to_type, const std::string& to, DType from_type,
                      const std::string& from) {
  if (to_type == DType::kBool && from_type != DType::kBool) {
    return Line("setp.ne.u32 {}, {}, 0;", to, from);
  }
  if (from_type == DType::kBool) {
    if (to_type == DType::kBool) return Line("mov.pred {}, {};", to, from);
    return Line("selp.b32 {}, 1, 0, {};", to, from);
  }
  const int bits = FactsOf(to_type).bits;
  if (bits == 16 && IsHalf(to_type) != IsHalf(from_type)) {
    Line("cvt.u{}.u{} {}, {};", IsHalf(to_type) ? 16 : 32, IsHalf(to_type) ? 32 : 16, to, from);
  } else {
    Line("mov.b{} {}, {};", bits == 8 || (bits == 16 && !IsHalf(to_type)) ? 32 : bits, to, from);
  }
  if (!IsHalf(to_type)) Normalize(to_type, to);
}

void PtxBody::Select(DType type, const std::string& to, const std::string& condition,
                     const std::string& one, const std::string& other) {
  if (type != DType::kBool) {
    return Line("selp.{} {}, {}, {}, {};", Untyped(type), to, one, other, condition);
  }
  const std::string not_taken = New(DType::kBool);
  const std::string taken = New(DType::kBool);
  Line("and.pred {}, {}, {};", taken, condition, one);
  Line("not.pred {}, {};", not_taken, condition);
  Line("and.pred {0}, {0}, {1};", not_taken, other);
  Line("or.pred {}, {}, {};", to, taken, not_taken);
}

// 2^trunc(x log2 e) times 2^rest. The first is exact, and the second has an argument below 1.
void PtxBody::Exponential(const std::string& to, const std::string& x) {
  const std::string bounded = New(DType::kF32);
  const std::string whole = New(DType::kF32);
  const std::string rest = New(DType::kF32);
  Line("max.NaN.f32 {}, {}, 0fc2d00000;", bounded, x);     // -104: 0
  Line("min.NaN.f32 {0}, {0}, 0f42b20000;", bounded);      // 89: infinity
  Line("mul.rn.f32 {}, {}, 0f3fb8aa3b;", whole, bounded);  // log2 e
  Line("cvt.rzi.f32.f32 {0}, {0};", whole);
  Line("fma.rn.f32 {}, {}, 0fbf317200, {};", rest, whole, bounded);  // ln 2, in two parts
  Line("fma.rn.f32 {0}, {1}, 0fb5bfbe8e, {0};", rest, whole);
  Line("mul.rn.f32 {0}, {0}, 0f3fb8aa3b;", rest);
  Line("ex2.approx.f32 {0}, {0};", rest);
  Line("ex2.approx.f32 {0}, {0};", whole);
  Line("mul.rn.f32 {}, {}, {};", to, rest, whole);
}

absl::Status PtxBody::FloatUnary(Opcode opcode, DType type, const std::string& to,
                                 const std::string& x) {
  const std::string_view name = PtxType(type);
  const bool is_single = type == DType::kF32;
  switch (opcode) {
    case Opcode::kNegate:
      Line("neg.{} {}, {};", name, to, x);
      return absl::OkStatus();
    case Opcode::kAbsolute:
      Line("abs.{} {}, {};", name, to, x);
      return absl::OkStatus();
    case Opcode::kSquareRoot:
      Line("sqrt.{}.{} {}, {};", fast_ && is_single ? "approx" : "rn", name, to, x);
      return absl::OkStatus();
    case Opcode::kFloor:
    case Opcode::kCeiling:
    case Opcode::kTruncate:
    case Opcode::kRoundToEven:
      Line("cvt.{0}.{1}.{1} {2}, {3};", Rounding(opcode), name, to, x);
      return absl::OkStatus();
    case Opcode::kIsNan:
      Line("setp.nan.{0} {1}, {2}, {2};", name, to, x);
      return absl::OkStatus();
    case Opcode::kIsInfinite:
      Line("testp.infinite.{} {}, {};", name, to, x);
      return absl::OkStatus();
    default:
      break;
  }
  // Within two steps of the last place, as CUDA's own functions.
  if (is_single && opcode == Opcode::kReciprocalSquareRoot) {
    Line("rsqrt.approx.f32 {}, {};", to, x);
    return absl::OkStatus();
  }
  if (is_single && opcode == Opcode::kExponential2) {
    Line("ex2.approx.f32 {}, {};", to, x);
    return absl::OkStatus();
  }
  if (is_single && opcode == Opcode::kExponential && !fast_) {
    Exponential(to, x);
    return absl::OkStatus();
  }
  if (!is_single || !fast_) return Lacks(FactsOf(opcode).name, type);
  switch (opcode) {
    case Opcode::kExponential:
      Line("mul.f32 {}, {}, 0f3fb8aa3b;", to, x);
      Line("ex2.approx.f32 {0}, {0};", to);
      return absl::OkStatus();
    case Opcode::kLogarithm:
      Line("lg2.approx.f32 {}, {};", to, x);
      Line("mul.f32 {0}, {0}, 0f3f317218;", to);
      return absl::OkStatus();
    case Opcode::kLogarithm2:
      Line("lg2.approx.f32 {}, {};", to, x);
      return absl::OkStatus();
    case Opcode::kSine:
      Line("sin.approx.f32 {}, {};", to, x);
      return absl::OkStatus();
    case Opcode::kCosine:
      Line("cos.approx.f32 {}, {};", to, x);
      return absl::OkStatus();
    case Opcode::kHyperbolicTangent:
      Line("tanh.approx.f32 {}, {};", to, x);
      return absl::OkStatus();
    default:
      return Lacks(FactsOf(opcode).name, type);
  }
}

absl::Status PtxBody::Unary(Opcode opcode, DType type, const std::string& to,
                            const std::string& x) {
  if (IsFloat(type)) return FloatUnary(opcode, type, to, x);
  if (type == DType::kBool) {
    Line("not.pred {}, {};", to, x);
    return absl::OkStatus();
  }
  if (opcode == Opcode::kNot) {
    Line("not.{} {}, {};", Untyped(type), to, x);
  } else if (opcode == Opcode::kAbsolute && !IsSignedType(type)) {
    Line("mov.{} {}, {};", Untyped(type), to, x);
  } else {
    Line("{}.s{} {}, {};", opcode == Opcode::kNegate ? "neg" : "abs",
         FactsOf(type).bits == 64 ? 64 : 32, to, x);
  }
  Normalize(type, to);
  return absl::OkStatus();
}

void PtxBody::Extreme(Opcode opcode, DType type, const std::string& to, const std::string& x,
                      const std::string& y) {
  const std::string_view name = opcode == Opcode::kMinimum ? "min" : "max";
  if (type != DType::kF64) {
    return Line("{}{}.{} {}, {}, {};", name, type == DType::kF32 ? ".NaN" : "", PtxType(type), to,
                x, y);
  }
  // PTX's f64 passes over NaN: x + y is NaN where either is.
  const std::string is_nan = New(DType::kBool);
  const std::string sum = New(DType::kF64);
  Line("setp.nan.f64 {}, {}, {};", is_nan, x, y);
  Line("add.rn.f64 {}, {}, {};", sum, x, y);
  const std::string extreme = New(DType::kF64);
  Line("{}.f64 {}, {}, {};", name, extreme, x, y);
  Line("selp.f64 {}, {}, {}, {};", to, sum, extreme, is_nan);
}

void PtxBody::FloorDivision(Opcode opcode, DType type, const std::string& to, const std::string& x,
                            const std::string& y) {
  const bool divides = opcode == Opcode::kFloorDivide;
  const std::string_view name = PtxType(type);
  const std::string_view bits = Untyped(type);
  if (!IsSignedType(type))
    return Line("{}.{} {}, {}, {};", divides ? "div" : "rem", name, to, x, y);
  const std::string rest = New(type);
  const std::string signs = New(type);
  const std::string has_rest = New(DType::kBool);
  const std::string differs = New(DType::kBool);
  const std::string correction = New(type);
  Line("rem.{} {}, {}, {};", name, rest, x, y);
  Line("xor.{} {}, {}, {};", bits, signs, x, y);
  Line("setp.ne.{} {}, {}, 0;", name, has_rest, rest);
  Line("setp.lt.{} {}, {}, 0;", name, differs, signs);
  Line("and.pred {0}, {0}, {1};", differs, has_rest);
  if (divides) {
    Line("selp.{} {}, -1, 0, {};", bits, correction, differs);
    Line("div.{} {}, {}, {};", name, rest, x, y);
  } else {
    Line("selp.{} {}, {}, 0, {};", bits, correction, y, differs);
  }
  Line("add.{} {}, {}, {};", name, to, rest, correction);
  Normalize(type, to);
}

// Shifts by more than the register has bits are PTX's to clamp.
void PtxBody::Shift(Opcode opcode, DType type, const std::string& to, const std::string& x,
                    const std::string& y) {
  std::string by = y;
  if (FactsOf(type).bits == 64) {
    const std::string clamped = New(type);
    by = New(DType::kU32);
    Line("min.u64 {}, {}, 64;", clamped, y);
    Line("cvt.u32.u64 {}, {};", by, clamped);
  }
  if (opcode == Opcode::kShiftLeft) {
    Line("shl.{} {}, {}, {};", Untyped(type), to, x, by);
    Normalize(type, to);
  } else {
    Line("shr.{} {}, {}, {};", PtxType(type), to, x, by);
  }
}

absl::Status PtxBody::Binary(Opcode opcode, DType type, const std::string& to, const std::string& x,
                             const std::string& y) {
  const bool is_float = IsFloat(type);
  switch (opcode) {
    case Opcode::kMinimum:
    case Opcode::kMaximum:
      Extreme(opcode, type, to, x, y);
      return absl::OkStatus();
    case Opcode::kFloorDivide:
    case Opcode::kFloorRemainder:
      FloorDivision(opcode, type, to, x, y);
      return absl::OkStatus();
    case Opcode::kShiftLeft:
    case Opcode::kShiftRight:
      Shift(opcode, type, to, x, y);
      return absl::OkStatus();
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      Line("{}.{} {}, {}, {};", FactsOf(opcode).name, type == DType::kBool ? "pred" : Untyped(type),
           to, x, y);
      return absl::OkStatus();
    case Opcode::kLess:
    case Opcode::kLessOrEqual:
    case Opcode::kEqual:
    case Opcode::kNotEqual:
      if (type == DType::kBool) {
        Line("xor.pred {}, {}, {};", to, x, y);
        if (opcode == Opcode::kEqual) Line("not.pred {0}, {0};", to);
      } else {
        Line("setp.{}.{} {}, {}, {};", Comparison(opcode, is_float), PtxType(type), to, x, y);
      }
      return absl::OkStatus();
    default:
      break;
  }
  const std::string_view name = Arithmetic(opcode, is_float);
  if (name.empty()) return Lacks(FactsOf(opcode).name, type);
  const bool approximates = fast_ && opcode == Opcode::kDivide && type == DType::kF32;
  Line("{}.{} {}, {}, {};", approximates ? "div.approx" : name, PtxType(type), to, x, y);
  if (!is_float) Normalize(type, to);
  return absl::OkStatus();
}

void PtxBody::MultiplyAdd(DType type, const std::string& to, const std::string& x,
                          const std::string& y, const std::string& z) {
  Line("{}.{} {}, {}, {}, {};", IsFloat(type) ? "fma.rn" : "mad.lo", PtxType(type), to, x, y, z);
  if (!IsFloat(type)) Normalize(type, to);
}

}  // namespace kiln::graph
