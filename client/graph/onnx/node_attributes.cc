#include "client/graph/onnx/node_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/graph/onnx/onnx_tensor.h"
#include "client/graph/operators/constant_elements.h"
#include "client/graph/operators/op_table.h"

namespace kiln::graph {
namespace {

constexpr int64_t kOnnxFloat = 1;  // TensorProto.DataType
constexpr int64_t kOnnxInt64 = 7;

bool IsDType(const Operation& operation, std::string_view name) {
  const Operator* const op = FindOperator(operation.name);
  return op != nullptr && std::ranges::any_of(op->attributes, [name](const AttributeFacts& facts) {
           return facts.name == name && facts.kind == AttributeFacts::Kind::kDType;
         });
}

std::string AddNumber(const OnnxAttribute& attribute, Operation& operation) {
  const std::string name(attribute.name);
  if (!IsDType(operation, name)) {
    operation.attributes[name] = attribute.integer;
    return "";
  }
  const auto type = DTypeOfOnnx(attribute.integer);
  if (!type) {
    return fmt::format("attribute {:.100}: ONNX's type {} is none of Kiln's", name,
                       attribute.integer);
  }
  operation.attributes[name] = std::string(FactsOf(*type).name);
  return "";
}

// ConstantOfShape has a tensor of one element.
std::string AddFilling(const OnnxTensor& tensor, Operation& operation) {
  const auto type = DTypeOfOnnx(tensor.type);
  if (!type) return "its value has a type that Kiln has not";
  const auto bytes = BytesOf(tensor, {});
  if (!bytes.ok()) return std::string(bytes.status().message());
  Value value{
      .type = *type, .is_constant = true, .bytes = std::make_shared<const std::string>(*bytes)};
  auto elements = ConstantElements(value);
  if (!elements && std::ranges::count(*bytes, '\0') == std::ssize(*bytes)) elements = {{0.0}};
  if (!elements || elements->size() != 1) return "its value is no single number of a wide type";
  operation.attributes["dtype"] = std::string(FactsOf(*type).name);
  if (IsFloat(*type)) {
    operation.attributes["value"] = elements->front();
  } else if (std::abs(elements->front()) < 0x1p63) {
    operation.attributes["value"] = static_cast<int64_t>(elements->front());
  } else {
    return "its value does not fit 64 bits with a sign";
  }
  return "";
}

}  // namespace

std::optional<OnnxTensor> ConstantOf(const OnnxNode& node) {
  if (node.op != "Constant" || !(node.domain.empty() || node.domain == "ai.onnx") ||
      node.attributes.size() != 1) {
    return std::nullopt;
  }
  const OnnxAttribute& attribute = node.attributes[0];
  OnnxTensor tensor;
  switch (attribute.type) {
    case OnnxAttribute::kTensor:
      return attribute.tensor;
    case OnnxAttribute::kFloat:
      tensor.type = kOnnxFloat;
      tensor.floats = {static_cast<float>(attribute.number)};
      return tensor;
    case OnnxAttribute::kInt:
      tensor.type = kOnnxInt64;
      tensor.int64s = {attribute.integer};
      return tensor;
    case OnnxAttribute::kFloats:
      tensor.type = kOnnxFloat;
      tensor.floats = attribute.numbers;
      tensor.dims = {std::ssize(attribute.numbers)};
      return tensor;
    case OnnxAttribute::kInts:
      tensor.type = kOnnxInt64;
      tensor.int64s = attribute.integers;
      tensor.dims = {std::ssize(attribute.integers)};
      return tensor;
    default:
      return std::nullopt;
  }
}

std::string AddAttributes(const OnnxNode& node, Operation& operation) {
  for (const OnnxAttribute& attribute : node.attributes) {
    const std::string name(attribute.name);
    std::string why;
    switch (attribute.type) {
      case OnnxAttribute::kFloat:
        operation.attributes[name] = attribute.number;
        break;
      case OnnxAttribute::kInt:
        why = AddNumber(attribute, operation);
        break;
      case OnnxAttribute::kString:
        operation.attributes[name] = std::string(attribute.text);
        break;
      case OnnxAttribute::kFloats:
        operation.attributes[name] =
            std::vector<double>(attribute.numbers.begin(), attribute.numbers.end());
        break;
      case OnnxAttribute::kInts:
        operation.attributes[name] = attribute.integers;
        break;
      case OnnxAttribute::kTensor:
        if (operation.name == "ConstantOfShape" && attribute.tensor) {
          why = AddFilling(*attribute.tensor, operation);
          break;
        }
        [[fallthrough]];
      default:
        why = fmt::format("attribute {:.100} is no number, text or list of numbers", name);
    }
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace kiln::graph
