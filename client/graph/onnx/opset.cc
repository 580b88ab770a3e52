#include "client/graph/onnx/opset.h"

#include <string_view>

namespace kiln::graph {
namespace {

enum class Change : uint8_t {
  kDefault,    // the attribute had this default
  kOmitInput,  // an input was added before input `number`
  kBroadcast,  // "broadcast" and "axis" told where the second input's dimensions are
  kFlatten,    // it worked on a matrix
  kKeep,       // it meant something else: the engine's, because of `text`
};

struct Row {
  std::string_view op;
  int64_t before;  // opsets before this one
  Change change;
  std::string_view attribute = "";
  int64_t number = 0;
  std::string_view text = "";  // the default, where it is a text
};

// Attributes that became inputs, as the axes of Squeeze and ReduceSum did, need no row: operators
// take both.
constexpr Row kRows[] = {
    {"Add", 7, Change::kBroadcast},
    {"Sub", 7, Change::kBroadcast},
    {"Mul", 7, Change::kBroadcast},
    {"Div", 7, Change::kBroadcast},
    {"Pow", 7, Change::kBroadcast},
    {"And", 7, Change::kBroadcast},
    {"Or", 7, Change::kBroadcast},
    {"Xor", 7, Change::kBroadcast},
    {"Equal", 7, Change::kBroadcast},
    {"Less", 7, Change::kBroadcast},
    {"Greater", 7, Change::kBroadcast},
    {"Gemm", 7, Change::kBroadcast},
    {"PRelu", 7, Change::kKeep, "", 0, "before opset 7 its slopes are the channels'"},
    {"Concat", 4, Change::kDefault, "axis", 1},
    {"Softmax", 13, Change::kDefault, "axis", 1},
    {"LogSoftmax", 13, Change::kDefault, "axis", 1},
    {"Hardmax", 13, Change::kDefault, "axis", 1},
    {"Softmax", 13, Change::kFlatten},
    {"LogSoftmax", 13, Change::kFlatten},
    {"Hardmax", 13, Change::kFlatten},
    {"Resize", 11, Change::kOmitInput, "", 1},
    {"Resize", 11, Change::kDefault, "coordinate_transformation_mode", 0, "asymmetric"},
    {"Resize", 11, Change::kDefault, "nearest_mode", 0, "floor"},
    {"GroupNormalization", 21, Change::kKeep, "", 0, "before opset 21 its scales are the groups'"},
};

// Empty, or why the engine keeps it.
std::string DropBroadcast(const Segment& segment, Operation& operation) {
  const auto axis = operation.attributes.extract("axis");
  operation.attributes.erase("broadcast");
  if (axis.empty() || operation.inputs.size() < 2) return "";
  const auto rank = [&](size_t input) {
    const int value = operation.inputs[input];
    return value == kOmitted
               ? int64_t{0}
               : static_cast<int64_t>(segment.values[static_cast<size_t>(value)].shape.size());
  };
  const auto* const number = std::get_if<int64_t>(&axis.mapped());
  const int64_t last = rank(0) - rank(1);
  if (number != nullptr && (*number == last || *number == -rank(1))) return "";
  return "before opset 7 an axis tells where the second input's dimensions are";
}

// Whether more than the last dimension is normalized.
bool IsFlattened(const Segment& segment, const Operation& operation) {
  if (operation.inputs.empty() || operation.inputs[0] == kOmitted) return false;
  const auto& shape = segment.values[static_cast<size_t>(operation.inputs[0])].shape;
  const auto* const axis = std::get_if<int64_t>(&operation.attributes.at("axis"));
  const auto rank = static_cast<int64_t>(shape.size());
  return axis != nullptr && rank > 0 && *axis != -1 && *axis != rank - 1;
}

}  // namespace

OpsetResult ToNewestOpset(int64_t opset, const Segment& segment, Operation& operation) {
  OpsetResult result;
  for (const Row& row : kRows) {
    if (row.op != operation.name || opset >= row.before) continue;
    switch (row.change) {
      case Change::kDefault:
        operation.attributes.try_emplace(
            std::string(row.attribute),
            row.text.empty() ? Attribute(row.number) : Attribute(std::string(row.text)));
        break;
      case Change::kOmitInput:
        if (operation.inputs.size() > static_cast<size_t>(row.number)) {
          operation.inputs.insert(operation.inputs.begin() + row.number, kOmitted);
        }
        break;
      case Change::kBroadcast:
        result.kept_because = DropBroadcast(segment, operation);
        break;
      case Change::kFlatten:
        result.is_flattened = IsFlattened(segment, operation);
        break;
      case Change::kKeep:
        result.kept_because = row.text;
        break;
    }
  }
  return result;
}

}  // namespace kiln::graph
