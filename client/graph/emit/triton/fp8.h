// Conversions of fp8 (e4m3fn, e5m2) by integer and f32 operations: the same on every GPU.
#pragma once

#include "client/graph/emit/triton/ir_builder.h"
#include "client/graph/program/dtype.h"

namespace kiln::graph::triton {

inline bool IsFp8(DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; }

// `bits` are i8, the result is f32, exact.
Value Fp8ToFloat(IrBuilder& ir, DType type, Value bits);
// `number` is f32, the result i8: the nearest, ties to even, at most the largest finite number.
Value FloatToFp8(IrBuilder& ir, DType type, Value number);
// The bits of a number that is known now, rounded as FloatToFp8 does it.
uint8_t Fp8Bits(DType type, double number);

}  // namespace kiln::graph::triton
