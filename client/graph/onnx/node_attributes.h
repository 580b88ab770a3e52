// Attributes of ONNX nodes as those of operations.
#pragma once

#include <optional>
#include <string>

#include "client/graph/onnx/onnx_model.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// The tensor of a Constant node: its only attribute. Nothing where the node is none, or holds
// strings or a sparse tensor.
std::optional<OnnxTensor> ConstantOf(const OnnxNode& node);

// Empty, or why the engine keeps the operation.
std::string AddAttributes(const OnnxNode& node, Operation& operation);

}  // namespace kiln::graph
