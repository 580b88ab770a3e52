#include "client/graph/emit/triton/fp8.h"

#include <cmath>

namespace kiln::graph::triton {
namespace {

struct Format {
  int mantissa;
  int bias;
  double largest;
};

Format FormatOf(DType type) {
  return type == DType::kF8E4M3 ? Format{3, 7, 448} : Format{2, 15, 57344};
}

constexpr int kFloatMantissa = 23;
constexpr int kFloatBias = 127;
constexpr int kNan = 0x7f;  // of both

}  // namespace

Value Fp8ToFloat(IrBuilder& ir, DType type, Value bits) {
  const Format format = FormatOf(type);
  const Value word = ir.Cast("arith.extui", bits, Scalar::kI32);
  const auto whole = [&](int64_t number) { return ir.Integer(ir.TypeOf(word), number); };
  const auto with = [&](std::string_view operation, Value left, int64_t right) {
    return ir.Binary(operation, left, whole(right));
  };
  const Value magnitude = with("arith.andi", word, 0x7f);
  const Value shifted = with("arith.shli", magnitude, kFloatMantissa - format.mantissa);
  const Value rebiased =
      with("arith.addi", shifted, int64_t{kFloatBias - format.bias} << kFloatMantissa);
  const Value normal = ir.Cast("tt.bitcast", rebiased, Scalar::kF32);
  const Type floats = ir.TypeOf(normal);
  const Value number_of_steps = ir.Cast("arith.sitofp", magnitude, Scalar::kF32);
  const Value subnormal =
      ir.Binary("arith.mulf", number_of_steps,
                ir.Float(floats, std::ldexp(1.0, 1 - format.bias - format.mantissa)));
  const Value is_subnormal = ir.Compare("slt", magnitude, whole(int64_t{1} << format.mantissa));
  Value number = ir.Select(is_subnormal, subnormal, normal);
  if (type == DType::kF8E5M2) {
    const Value is_infinite = ir.Compare("eq", magnitude, whole(0x7c));
    number = ir.Select(is_infinite, ir.Float(floats, INFINITY), number);
  }
  const Value is_nan = ir.Compare("sgt", magnitude, whole(type == DType::kF8E5M2 ? 0x7c : 0x7e));
  number = ir.Select(is_nan, ir.Float(floats, NAN), number);
  const Value sign = with("arith.shli", with("arith.andi", word, 0x80), 24);
  const Value signed_bits =
      ir.Binary("arith.ori", ir.Cast("tt.bitcast", number, Scalar::kI32), sign);
  return ir.Cast("tt.bitcast", signed_bits, Scalar::kF32);
}

Value FloatToFp8(IrBuilder& ir, DType type, Value number) {
  const Format format = FormatOf(type);
  const Type floats = ir.TypeOf(number);
  const int dropped = kFloatMantissa - format.mantissa;
  const Value word = ir.Cast("tt.bitcast", number, Scalar::kI32);
  const auto whole = [&](int64_t value) { return ir.Integer(ir.TypeOf(word), value); };
  const auto with = [&](std::string_view operation, Value left, int64_t right) {
    return ir.Binary(operation, left, whole(right));
  };
  const Value positive = ir.Unary("math.absf", number);
  const Value clamped = ir.Binary("arith.minnumf", positive, ir.Float(floats, format.largest));
  const Value bits = ir.Cast("tt.bitcast", clamped, Scalar::kI32);
  // To nearest, ties to even: half a step less one, and one more where the last kept bit is set.
  const Value last = with("arith.andi", with("arith.shrui", bits, dropped), 1);
  const Value half = with("arith.addi", bits, (int64_t{1} << (dropped - 1)) - 1);
  const Value rounded = with("arith.shrui", ir.Binary("arith.addi", half, last), dropped);
  const Value normal =
      with("arith.subi", rounded, int64_t{kFloatBias - format.bias} << format.mantissa);
  // A float this large has a subnormal's step as its last bit: adding it rounds to that step.
  const Value magic =
      ir.Float(floats, std::ldexp(1.0, kFloatMantissa + 1 - format.bias - format.mantissa));
  const Value sum = ir.Cast("tt.bitcast", ir.Binary("arith.addf", clamped, magic), Scalar::kI32);
  const Value subnormal = ir.Binary("arith.subi", sum, ir.Cast("tt.bitcast", magic, Scalar::kI32));
  const Value is_subnormal =
      ir.Compare("olt", clamped, ir.Float(floats, std::ldexp(1.0, 1 - format.bias)));
  Value magnitude = ir.Select(is_subnormal, subnormal, normal);
  const Value is_nan = ir.Compare("uno", number, number);
  magnitude = ir.Select(is_nan, whole(kNan), magnitude);
  const Value sign = with("arith.andi", with("arith.shrui", word, 24), 0x80);
  return ir.Cast("arith.trunci", ir.Binary("arith.ori", magnitude, sign), Scalar::kI8);
}

uint8_t Fp8Bits(DType type, double number) {
  const Format format = FormatOf(type);
  const int sign = std::signbit(number) ? 0x80 : 0;
  if (std::isnan(number)) return static_cast<uint8_t>(sign | kNan);
  const double magnitude = std::fmin(std::fabs(number), format.largest);
  const int smallest = 1 - format.bias;
  const int exponent = std::max(magnitude == 0 ? smallest : std::ilogb(magnitude), smallest);
  // Steps from the exponent's power of two on; those below it are there for subnormals alone.
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent)));
  return static_cast<uint8_t>(sign | (((exponent - smallest) << format.mantissa) + steps));
}

}  // namespace kiln::graph::triton
