// Writes ONNX models down in few words, as bytes. Numbers of fields are those of onnx.proto.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kiln::graph {

inline std::string OnnxValue(const std::string& name, const std::vector<std::string>& shape,
                             int type = 1) {
  std::string dimensions;
  protozero::pbf_writer shape_writer(dimensions);
  for (const std::string& extent : shape) {
    std::string dimension;
    protozero::pbf_writer writer(dimension);
    if (extent[0] >= '0' && extent[0] <= '9') {
      writer.add_int64(1, std::stoll(extent));
    } else if (extent != "?") {
      writer.add_string(2, extent);
    }
    shape_writer.add_message(1, dimension);
  }
  std::string tensor;
  protozero::pbf_writer tensor_writer(tensor);
  tensor_writer.add_int32(1, type);
  tensor_writer.add_message(2, dimensions);
  std::string value_type;
  protozero::pbf_writer(value_type).add_message(1, tensor);
  std::string value;
  protozero::pbf_writer writer(value);
  writer.add_string(1, name);
  writer.add_message(2, value_type);
  return value;
}

struct OnnxTensorParts {
  std::string name;
  int type = 1;
  std::vector<int64_t> dims;
  std::string raw = {};
  std::vector<float> floats = {};
  std::vector<int32_t> int32s = {};
  std::vector<std::pair<std::string, std::string>> external = {};
};

inline std::string OnnxTensorBytes(const OnnxTensorParts& parts) {
  std::string tensor;
  protozero::pbf_writer writer(tensor);
  writer.add_packed_int64(1, parts.dims.begin(), parts.dims.end());
  writer.add_int32(2, parts.type);
  writer.add_packed_float(4, parts.floats.begin(), parts.floats.end());
  for (const int32_t number : parts.int32s) writer.add_int32(5, number);  // not packed
  writer.add_string(8, parts.name);
  if (!parts.raw.empty()) writer.add_bytes(9, parts.raw);
  for (const auto& [key, value] : parts.external) {
    std::string entry;
    protozero::pbf_writer entry_writer(entry);
    entry_writer.add_string(1, key);
    entry_writer.add_string(2, value);
    writer.add_message(13, entry);
  }
  if (!parts.external.empty()) writer.add_int32(14, 1);
  return tensor;
}

inline std::string OnnxInt(const std::string& name, int64_t number) {
  std::string attribute;
  protozero::pbf_writer writer(attribute);
  writer.add_string(1, name);
  writer.add_int64(3, number);
  writer.add_int32(20, 2);
  return attribute;
}

inline std::string OnnxTensorAttribute(const std::string& name, const OnnxTensorParts& tensor) {
  std::string attribute;
  protozero::pbf_writer writer(attribute);
  writer.add_string(1, name);
  writer.add_message(5, OnnxTensorBytes(tensor));
  writer.add_int32(20, 4);
  return attribute;
}

inline std::string OnnxNodeBytes(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::vector<std::string>& attributes = {},
                                 const std::string& domain = "") {
  std::string node;
  protozero::pbf_writer writer(node);
  for (const std::string& input : inputs) writer.add_string(1, input);
  for (const std::string& output : outputs) writer.add_string(2, output);
  writer.add_string(4, op);
  for (const std::string& attribute : attributes) writer.add_message(5, attribute);
  writer.add_string(7, domain);
  return node;
}

struct OnnxMaker {
  std::vector<std::string> nodes = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
  std::vector<std::string> initializers = {};
  std::vector<std::string> intermediates = {};
  int64_t opset = 21;

  std::string Graph() const {
    std::string graph;
    protozero::pbf_writer writer(graph);
    for (const std::string& node : nodes) writer.add_message(1, node);
    for (const std::string& tensor : initializers) writer.add_message(5, tensor);
    for (const std::string& value : inputs) writer.add_message(11, value);
    for (const std::string& value : outputs) writer.add_message(12, value);
    for (const std::string& value : intermediates) writer.add_message(13, value);
    return graph;
  }
  std::string Bytes() const {
    std::string opset_import;
    protozero::pbf_writer(opset_import).add_int64(2, opset);
    std::string model;
    protozero::pbf_writer writer(model);
    writer.add_message(7, Graph());
    writer.add_message(8, opset_import);
    return model;
  }
};

// An attribute that holds a graph.
inline std::string OnnxGraphAttribute(const std::string& name, const OnnxMaker& graph) {
  std::string attribute;
  protozero::pbf_writer writer(attribute);
  writer.add_string(1, name);
  writer.add_message(6, graph.Graph());
  writer.add_int32(20, 5);
  return attribute;
}

}  // namespace kiln::graph
