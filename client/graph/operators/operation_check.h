// Whether one operation is what the operator table says, whatever its values are.
#pragma once

#include "absl/status/status.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// INVALID_ARGUMENT: an unknown operator (with the nearest name), wrong arity, attributes that are
// unknown, missing or of another type.
[[nodiscard]] absl::Status CheckForm(const Operation& operation);
// INVALID_ARGUMENT names the operation by `number`: as CheckForm; numbers of values out of range;
// opaque values. Of an operation that the engine keeps only the numbers count.
[[nodiscard]] absl::Status CheckOperation(const Segment& segment, const Operation& operation,
                                          int number);

}  // namespace kiln::graph
