#include "client/graph/operators/fp8_cast.h"

namespace kiln::graph {

int CastBeyondRange(DType fp8, int x, ProgramBuilder& builder) {
  const bool has_infinity = fp8 == DType::kF8E5M2;
  // Half a step above the largest number. A tie goes to the even side: to infinity in f8e5m2, to
  // the largest number in f8e4m3.
  const int limit = builder.Constant(builder.TypeOf(x), has_infinity ? 61440 : 464);
  const int magnitude = builder.Unary(Opcode::kAbsolute, x);
  const int is_beyond = has_infinity ? builder.Binary(Opcode::kLessOrEqual, limit, magnitude)
                                     : builder.Binary(Opcode::kLess, limit, magnitude);
  const int saturated = builder.BitCast(DType::kU8, builder.Cast(fp8, x));
  const int bits = builder.Cast(DType::kI32, saturated);
  const int sign = builder.Binary(Opcode::kAnd, bits, builder.Integer(DType::kI32, 0x80));
  const int special = builder.Integer(DType::kI32, has_infinity ? 0x7C : 0x7F);
  const int beyond = builder.Binary(Opcode::kOr, sign, special);
  const int result = builder.Select(is_beyond, beyond, bits);
  return builder.BitCast(fp8, builder.Cast(DType::kU8, result));
}

}  // namespace kiln::graph
