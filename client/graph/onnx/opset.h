// What operators meant in older versions of ONNX's operator set.
#pragma once

#include <cstdint>
#include <string>

#include "client/graph/segment/segment.h"

namespace kiln::graph {

struct OpsetResult {
  std::string kept_because;  // empty: the operation is one of the newest opset now
  // It works on its input as a matrix: dimensions from attribute "axis" on are one.
  bool is_flattened = false;
};

// `operation` comes from a model of this opset, and has its inputs' values in `segment`.
OpsetResult ToNewestOpset(int64_t opset, const Segment& segment, Operation& operation);

}  // namespace kiln::graph
