#include "client/graph/onnx/onnx_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "client/graph/onnx/external_data.h"
#include "client/graph/onnx/limits.h"
#include "client/graph/onnx/model_values.h"
#include "client/graph/onnx/node_attributes.h"
#include "client/graph/onnx/onnx_model.h"
#include "client/graph/onnx/opset.h"
#include "client/graph/onnx/shape_values.h"
#include "client/graph/operators/lowering.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/operation_check.h"
#include "client/graph/operators/segment_check.h"
#include "client/graph/segment/limits.h"

namespace kiln::graph {
namespace {

template <typename... Arguments>
absl::Status WrongOnnx(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

class OnnxReader {
 public:
  OnnxReader(const OnnxModel& model, const OnnxOptions& options, const DataFolders& folders)
      : model_(model), values_(model, options, folders, segment_) {}

  absl::StatusOr<Segment> Read() {
    segment_.name = model_.graph_name.empty() ? "model" : std::string(model_.graph_name);
    absl::Status status = values_.AddInitializers();
    for (const OnnxValueInfo& input : model_.inputs) {
      if (status.ok()) status = values_.AddInput(input);
    }
    if (status.ok()) status = values_.CheckDimensions();
    for (size_t i = 0; i < model_.nodes.size() && status.ok(); ++i) {
      status = AddNode(i);
      if (segment_.operations.size() > kOperationsMax || segment_.values.size() > kValuesMax) {
        return WrongOnnx("it has over {} nodes or {} values", kOperationsMax, kValuesMax);
      }
    }
    for (const OnnxValueInfo& output : model_.outputs) {
      if (status.ok()) status = MarkOutput(output);
    }
    if (!status.ok()) return status;
    return std::move(segment_);
  }

 private:
  absl::Status AddNode(size_t number);
  absl::Status MarkOutput(const OnnxValueInfo& output);
  absl::StatusOr<Operation> OperationOf(size_t number) const;
  std::string WhyKept(const OnnxNode& node, Operation& operation, bool& is_flattened) const;
  absl::Status AddOperation(Operation operation, const std::vector<std::string_view>& outputs);
  absl::Status AddFlattened(Operation operation, const std::vector<std::string_view>& outputs);
  absl::StatusOr<int> AddBetween(Operation operation, const std::string& name);

  const OnnxModel& model_;
  Segment segment_;
  ModelValues values_;
  ShapeValues shapes_;
};

absl::StatusOr<Operation> OnnxReader::OperationOf(size_t number) const {
  const OnnxNode& node = model_.nodes[number];
  Operation operation;
  operation.name = node.op;
  for (const std::string_view name : node.inputs) {
    const auto value = values_.Find(name);
    if (!name.empty() && !value) {
      return WrongOnnx("node {} ({:.100}): nothing before it gives \"{:.200}\"", number, node.op,
                       name);
    }
    operation.inputs.push_back(name.empty() ? kOmitted : *value);
  }
  while (!operation.inputs.empty() && operation.inputs.back() == kOmitted) {
    operation.inputs.pop_back();
  }
  return operation;
}

// Changes the operation to one of the operator table; empty if that succeeds.
std::string OnnxReader::WhyKept(const OnnxNode& node, Operation& operation,
                                bool& is_flattened) const {
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    return fmt::format("domain {:.100} is not ONNX's", node.domain);
  }
  if (std::ranges::any_of(node.attributes, &OnnxAttribute::is_graph)) {
    return "its subgraphs are the engine's";
  }
  const Operator* const op = FindOperator(operation.name);
  if (op != nullptr && op->category == OpCategory::kUnsupported) return std::string(op->why_not);
  for (const int input : operation.inputs) {
    if (input == kOmitted) continue;
    const Value& value = segment_.values[static_cast<size_t>(input)];
    if (value.is_opaque) {
      return fmt::format("type or shape of value {:.200} is not known", value.name);
    }
  }
  if (std::string why = AddAttributes(node, operation); !why.empty()) return why;
  OpsetResult newest = ToNewestOpset(model_.opset, segment_, operation);
  is_flattened = newest.is_flattened;
  if (!newest.kept_because.empty()) return std::move(newest.kept_because);
  return std::string(CheckForm(operation).message());
}

absl::Status OnnxReader::AddNode(size_t number) {
  const OnnxNode& node = model_.nodes[number];
  auto outputs = node.outputs;
  while (outputs.size() > 1 && outputs.back().empty()) outputs.pop_back();
  if (const auto tensor = ConstantOf(node)) {
    if (outputs.size() != 1) return WrongOnnx("node {}: a Constant has one output", number);
    return values_.AddConstant(*tensor, outputs[0]);
  }
  auto operation = OperationOf(number);
  if (!operation.ok()) return operation.status();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto next = static_cast<int>(segment_.values.size() + i);
    operation->outputs.push_back(outputs[i].empty() ? kOmitted : next);
  }
  bool is_flattened = false;
  operation->kept_because = WhyKept(node, *operation, is_flattened);
  std::set<int> more;  // what the subgraphs read of the graph around them
  for (const std::string_view name : node.subgraph_reads) {
    if (const auto value = values_.Find(name)) more.insert(*value);
  }
  operation->inputs.insert(operation->inputs.end(), more.begin(), more.end());
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    operation->name = fmt::format("{}.{}", node.domain, node.op);
  }
  return is_flattened ? AddFlattened(*std::move(operation), outputs)
                      : AddOperation(*std::move(operation), outputs);
}

absl::Status OnnxReader::AddOperation(Operation operation,
                                      const std::vector<std::string_view>& outputs) {
  std::vector<Value> values;
  if (operation.name == "Reshape" && operation.kept_because.empty()) {
    if (auto target = shapes_.TargetOfReshape(segment_, operation)) {
      operation.inputs.resize(1);
      operation.attributes["shape"] = *std::move(target);
      operation.attributes.erase("allowzero");  // no 0 of the target is a size
    }
  }
  if (operation.kept_because.empty()) {
    const auto given = InferOutputs(segment_, operation);
    if (!given.ok()) operation.kept_because = std::string(given.status().message());
    for (size_t i = 0; i < outputs.size() && given.ok(); ++i) {
      if (i >= given->size()) {
        operation.kept_because = fmt::format("output {} is not computed", i);
        break;
      }
      values.push_back(
          {.name = std::string(outputs[i]), .type = (*given)[i].type, .shape = (*given)[i].shape});
      const absl::Status status = CheckValue(values.back(), segment_.symbols);
      if (!status.ok()) operation.kept_because = std::string(status.message());
    }
  }
  if (!operation.kept_because.empty()) {
    values.clear();
    for (const std::string_view name : outputs) values.push_back(values_.Described(name));
  } else if (outputs.size() == 1) {
    if (auto elements = shapes_.Evaluate(segment_, operation, values[0])) {
      const bool is_output =
          std::ranges::count(model_.outputs, outputs[0], &OnnxValueInfo::name) > 0;
      auto bytes = is_output ? std::nullopt : BytesOfElements(values[0].type, *elements);
      if (bytes) {
        values[0].is_input = values[0].is_constant = true;
        values[0].bytes = std::make_shared<const std::string>(*std::move(bytes));
        return values_.Add(std::move(values[0])).status();
      }
      shapes_.Add(static_cast<int>(segment_.values.size()), *std::move(elements));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    const auto number = values_.Add(std::move(values[i]));
    if (!number.ok()) return number.status();
    operation.outputs[i] = *number;
  }
  segment_.operations.push_back(std::move(operation));
  return absl::OkStatus();
}

// The value between two operations that stand for one node.
absl::StatusOr<int> OnnxReader::AddBetween(Operation operation, const std::string& name) {
  operation.outputs = {static_cast<int>(segment_.values.size())};
  const absl::Status status = AddOperation(std::move(operation), {name});
  if (!status.ok()) return status;
  return static_cast<int>(segment_.values.size()) - 1;
}

// Flatten, the operation on the last dimension, Reshape.
absl::Status OnnxReader::AddFlattened(Operation operation,
                                      const std::vector<std::string_view>& outputs) {
  const std::vector<Size> shape = segment_.values[static_cast<size_t>(operation.inputs[0])].shape;
  std::vector<int64_t> extents;
  for (const Size& extent : shape) extents.push_back(extent.Constant().value_or(-1));
  if (std::ranges::count(extents, -1) > 1 || outputs.size() != 1) {
    operation.kept_because = "before opset 13 it flattens its input, which has open dimensions";
    return AddOperation(std::move(operation), outputs);
  }
  const std::string name(outputs[0]);
  Operation flatten{"Flatten", operation.inputs, {}, {{"axis", operation.attributes.at("axis")}}};
  const auto matrix = AddBetween(std::move(flatten), name + "/flattened");
  if (!matrix.ok()) return matrix.status();
  operation.inputs = {*matrix};
  operation.attributes["axis"] = int64_t{-1};
  const auto normalized = AddBetween(std::move(operation), name + "/normalized");
  if (!normalized.ok()) return normalized.status();
  Operation reshape{"Reshape", {*normalized}, {}, {{"shape", std::move(extents)}}};
  reshape.outputs = {static_cast<int>(segment_.values.size())};
  return AddOperation(std::move(reshape), outputs);
}

absl::Status OnnxReader::MarkOutput(const OnnxValueInfo& output) {
  const auto number = values_.Find(output.name);
  if (!number) return WrongOnnx("no node gives output \"{:.200}\"", output.name);
  Value& value = segment_.values[static_cast<size_t>(*number)];
  value.is_output = !value.is_input;
  return absl::OkStatus();
}

absl::StatusOr<Segment> ReadWithData(std::string_view bytes, const DataFolders& folders,
                                     const OnnxOptions& options) {
  const auto model = ParseOnnxModel(bytes);
  if (!model.ok()) return model.status();
  return OnnxReader(*model, options, folders).Read();
}

}  // namespace

absl::StatusOr<Segment> ReadOnnxBytes(std::string_view bytes, const std::string& folder,
                                      const OnnxOptions& options) {
  return ReadWithData(bytes, {.model = folder}, options);
}

absl::StatusOr<Segment> ReadOnnx(const std::string& path, const OnnxOptions& options) {
  const auto bytes = ReadWholeFile(path, kOnnxModelBytesMax);
  if (!bytes.ok()) return bytes.status();
  auto segment = ReadWithData(*bytes, DataFoldersOf(path), options);
  if (segment.ok()) return segment;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", path, std::string(segment.status().message())));
}

}  // namespace kiln::graph
