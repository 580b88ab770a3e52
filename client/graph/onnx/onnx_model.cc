#include "client/graph/onnx/onnx_model.h"

#include <fmt/format.h>

#include <utility>

#include "absl/status/status.h"
#include "client/graph/onnx/limits.h"
#include "client/graph/onnx/proto_fields.h"
#include "client/graph/segment/limits.h"

// Numbers of fields are those of onnx.proto.
namespace kiln::graph {
namespace {

// Thrown within this file alone, beside protozero's exceptions.
struct WrongModel {
  std::string message;
};

using Names = std::vector<std::string_view>;
constexpr std::string_view kReads = "values that a node's subgraphs read";

// Empty messages of two bytes would fill the memory, were they counted behind the parser.
template <typename T>
T& AddTo(std::vector<T>& list, size_t max, std::string_view what) {
  if (list.size() == max) throw WrongModel{fmt::format("it has over {} {}", max, what)};
  return list.emplace_back();
}

void ReadExternalEntry(ProtoFields entry, OnnxTensor& tensor) {
  std::string_view key;
  std::string_view value;
  while (entry.Next()) {
    if (entry.number() == 1) key = entry.Text();
    if (entry.number() == 2) value = entry.Text();
  }
  if (key == "location") tensor.location = value;
  if (key == "offset") tensor.offset = value;
  if (key == "length") tensor.length = value;
}

void ReadTensor(ProtoFields fields, OnnxTensor& tensor) {
  while (fields.Next()) {
    switch (fields.number()) {
      case 1:
        fields.AppendTo(tensor.dims);
        break;
      case 2:
        tensor.type = fields.Integer();
        break;
      case 3:
        tensor.has_segment = true;
        break;
      case 4:
        fields.AppendTo(tensor.floats);
        break;
      case 5:
        fields.AppendTo(tensor.int32s);
        break;
      case 7:
        fields.AppendTo(tensor.int64s);
        break;
      case 8:
        tensor.name = fields.Text();
        break;
      case 9:
        tensor.raw = fields.Text();
        break;
      case 10:
        fields.AppendTo(tensor.doubles);
        break;
      case 11:
        fields.AppendTo(tensor.uint64s);
        break;
      case 13:
        ReadExternalEntry(fields.Message(), tensor);
        break;
      case 14:
        tensor.is_external = fields.Integer() == 1;
        break;
    }
  }
}

// What a subgraph reads may be a value of the graphs around it; so may its outputs.
void ReadSubgraph(ProtoFields graph, int depth, Names& reads) {
  if (depth > kOnnxSubgraphDepthMax) {
    throw WrongModel{fmt::format("subgraphs are over {} deep", kOnnxSubgraphDepthMax)};
  }
  while (graph.Next()) {
    if (graph.number() == 12) {
      ProtoFields output = graph.Message();
      while (output.Next()) {
        if (output.number() == 1) AddTo(reads, kValuesMax, kReads) = output.Text();
      }
    }
    if (graph.number() != 1) continue;
    ProtoFields node = graph.Message();
    while (node.Next()) {
      if (node.number() == 1) AddTo(reads, kValuesMax, kReads) = node.Text();
      if (node.number() != 5) continue;
      ProtoFields attribute = node.Message();
      while (attribute.Next()) {
        if (attribute.number() == 6 || attribute.number() == 11) {
          ReadSubgraph(attribute.Message(), depth + 1, reads);
        }
      }
    }
  }
}

void ReadAttribute(ProtoFields fields, Names& subgraph_reads, OnnxAttribute& attribute) {
  using Type = OnnxAttribute::Type;
  int64_t type = Type::kUnset;
  while (fields.Next()) {
    Type seen = Type::kUnset;  // files of the first version do not tell the type
    switch (fields.number()) {
      case 1:
        attribute.name = fields.Text();
        break;
      case 2:
        attribute.number = fields.Float();
        seen = Type::kFloat;
        break;
      case 3:
        attribute.integer = fields.Integer();
        seen = Type::kInt;
        break;
      case 4:
        attribute.text = fields.Text();
        seen = Type::kString;
        break;
      case 5:
        ReadTensor(fields.Message(), attribute.tensor.emplace());
        seen = Type::kTensor;
        break;
      case 6:
      case 11:
        ReadSubgraph(fields.Message(), 1, subgraph_reads);
        attribute.is_graph = true;
        break;
      case 7:
        fields.AppendTo(attribute.numbers);
        seen = Type::kFloats;
        break;
      case 8:
        fields.AppendTo(attribute.integers);
        seen = Type::kInts;
        break;
      case 20:
        type = fields.Integer();
        break;
    }
    if (seen != Type::kUnset) attribute.type = seen;
  }
  if (type != Type::kUnset) attribute.type = type;
}

void ReadNode(ProtoFields fields, OnnxNode& node) {
  while (fields.Next()) {
    switch (fields.number()) {
      case 1:
        AddTo(node.inputs, kOperandsMax, "inputs of a node") = fields.Text();
        break;
      case 2:
        AddTo(node.outputs, kOperandsMax, "outputs of a node") = fields.Text();
        break;
      case 4:
        node.op = fields.Text();
        break;
      case 5:
        ReadAttribute(fields.Message(), node.subgraph_reads,
                      AddTo(node.attributes, kAttributesMax, "attributes of a node"));
        break;
      case 7:
        node.domain = fields.Text();
        break;
    }
  }
}

std::vector<OnnxDimension> ReadShape(ProtoFields fields) {
  std::vector<OnnxDimension> shape;
  while (fields.Next()) {
    if (fields.number() != 1) continue;
    OnnxDimension& dimension = AddTo(shape, kOnnxDimensionsMax, "dimensions of a value");
    ProtoFields parts = fields.Message();
    while (parts.Next()) {
      if (parts.number() == 1) dimension.value = parts.Integer();
      if (parts.number() == 2) dimension.parameter = parts.Text();
    }
  }
  return shape;
}

void ReadValueInfo(ProtoFields fields, OnnxValueInfo& value) {
  while (fields.Next()) {
    if (fields.number() == 1) value.name = fields.Text();
    if (fields.number() != 2) continue;
    ProtoFields type = fields.Message();
    while (type.Next()) {
      if (type.number() != 1) continue;  // a sequence, a map, an optional: no tensor
      ProtoFields tensor = type.Message();
      while (tensor.Next()) {
        if (tensor.number() == 1) value.type = tensor.Integer();
        if (tensor.number() == 2) value.shape = ReadShape(tensor.Message());
      }
    }
  }
}

void ReadGraph(ProtoFields fields, OnnxModel& model) {
  while (fields.Next()) {
    switch (fields.number()) {
      case 1:
        ReadNode(fields.Message(), AddTo(model.nodes, kValuesMax, "nodes"));
        model.attributes += model.nodes.back().attributes.size();
        if (model.attributes > kOnnxAttributesMax) {
          throw WrongModel{fmt::format("it has over {} attributes", kOnnxAttributesMax)};
        }
        break;
      case 2:
        model.graph_name = fields.Text();
        break;
      case 5:
        ReadTensor(fields.Message(), AddTo(model.initializers, kValuesMax, "initializers"));
        break;
      case 11:
        ReadValueInfo(fields.Message(), AddTo(model.inputs, kValuesMax, "inputs"));
        break;
      case 12:
        ReadValueInfo(fields.Message(), AddTo(model.outputs, kValuesMax, "outputs"));
        break;
      case 13:
        ReadValueInfo(fields.Message(), AddTo(model.intermediates, kValuesMax, "value_info"));
        break;
      case 15: {
        ProtoFields sparse = fields.Message();
        while (sparse.Next()) {
          if (sparse.number() != 1) continue;
          OnnxTensor values;
          ReadTensor(sparse.Message(), values);
          AddTo(model.sparse_initializers, kValuesMax, "sparse initializers") = values.name;
        }
        break;
      }
    }
  }
}

void ReadOpset(ProtoFields fields, OnnxModel& model) {
  std::string_view domain;
  int64_t version = 1;
  while (fields.Next()) {
    if (fields.number() == 1) domain = fields.Text();
    if (fields.number() == 2) version = fields.Integer();
  }
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
}

OnnxModel ReadModel(std::string_view bytes) {
  OnnxModel model;
  bool has_graph = false;
  ProtoFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 7) {
      ReadGraph(fields.Message(), model);
      has_graph = true;
    } else if (fields.number() == 8) {
      ReadOpset(fields.Message(), model);
    }
  }
  if (!has_graph) throw WrongModel{"it has no graph"};
  return model;
}

}  // namespace

absl::StatusOr<OnnxModel> ParseOnnxModel(std::string_view bytes) {
  try {
    return ReadModel(bytes);
  } catch (const protozero::exception& exception) {
    return absl::InvalidArgumentError(
        fmt::format("it is no ONNX model, or is truncated: {}", exception.what()));
  } catch (const WrongModel& wrong) {
    return absl::InvalidArgumentError(wrong.message);
  }
}

}  // namespace kiln::graph
