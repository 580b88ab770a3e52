// From numbers to quantized ones.
#pragma once

#include <optional>

#include "client/graph/operators/element_emitter.h"

namespace kiln::graph {

// `value`, an f32 that is divided by its scale already: rounded to even, with the zero point added,
// within what an integer type holds. Floats are neither rounded nor bounded.
int QuantizedTo(ElementEmitter& e, DType type, int value, std::optional<int> zero_point);

}  // namespace kiln::graph
