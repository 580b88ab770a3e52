// Casts to fp8 that do not saturate, as the attribute saturate=0 wants them.
#pragma once

#include "client/graph/program/program_builder.h"

namespace kiln::graph {

// `x` is f32 or f64. What rounds to more than the type holds becomes infinite in f8e5m2, and NaN in
// f8e4m3, which has no infinity.
int CastBeyondRange(DType fp8, int x, ProgramBuilder& builder);

}  // namespace kiln::graph
