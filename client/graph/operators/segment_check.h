// Whether a segment can be planned.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// INVALID_ARGUMENT names the value or operation, and what to do: numbers out of range, unknown
// operators (with the nearest name), wrong arity, attributes and types, cycles, values with two
// producers or none, shapes that are not what their operation gives, sizes that overflow. About
// linear in the segment.
[[nodiscard]] absl::Status Check(const Segment& segment);
// INVALID_ARGUMENT: its shape is negative or too large for some size of the symbols, or strides or
// bytes do not fit to it.
[[nodiscard]] absl::Status CheckValue(const Value& value, const std::vector<Symbol>& symbols);

}  // namespace kiln::graph
