// What each opcode does to numbers: one value at a time, exactly, then rounded to its type.
#pragma once

#include <cstdint>

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Floats are in `number`, the rest in `integer`, extended to 64 bits by their sign.
struct Scalar {
  double number = 0;
  uint64_t integer = 0;
};

Scalar ScalarOf(DType type, uint64_t bits);
uint64_t BitsOf(DType type, const Scalar& value);

Scalar CastTo(DType to, DType from, const Scalar& value);
// `from` is the operand's type, `to` the result's; casts are among them.
Scalar Unary(Opcode opcode, DType to, DType from, const Scalar& value);
// `type` is that of the operands; comparisons give a bool.
Scalar Binary(Opcode opcode, DType type, const Scalar& one, const Scalar& other);

}  // namespace kiln::graph
