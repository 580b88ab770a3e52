// The float formats of graph values as exact numbers, by arithmetic on doubles.
#pragma once

#include <cstdint>

#include "client/graph/program/dtype.h"

namespace kiln::graph {

// The nearest number of the format, ties to even. fp8 saturates, infinities included; the others
// overflow to infinity.
double RoundTo(DType type, double number);

// REQUIRES: RoundTo gives the number back unchanged.
uint64_t ToBits(DType type, double number);
double FromBits(DType type, uint64_t bits);

}  // namespace kiln::graph
