// An ONNX file's messages, as far as a segment needs them (onnx.proto names the fields). Texts and
// raw bytes point into the file's bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::graph {

// Its elements are in `raw`, in a file of their own, or in the list that its type has.
struct OnnxTensor {
  std::string_view name = {};
  int64_t type = 0;  // TensorProto.DataType
  std::vector<int64_t> dims = {};
  std::optional<std::string_view> raw = {};
  std::vector<float> floats = {};
  std::vector<int32_t> int32s = {};
  std::vector<int64_t> int64s = {};
  std::vector<double> doubles = {};
  std::vector<uint64_t> uint64s = {};
  bool is_external = false;
  std::string_view location = {};
  std::optional<std::string_view> offset = {};
  std::optional<std::string_view> length = {};
  bool has_segment = false;  // it is a part of a tensor
};

struct OnnxAttribute {
  enum Type : int64_t { kUnset, kFloat, kInt, kString, kTensor, kGraph, kFloats, kInts };
  std::string_view name = {};
  int64_t type = kUnset;
  bool is_graph = false;
  double number = 0;
  int64_t integer = 0;
  std::string_view text = {};
  std::optional<OnnxTensor> tensor = {};
  std::vector<float> numbers = {};
  std::vector<int64_t> integers = {};
};

struct OnnxNode {
  std::string_view op = {};
  std::string_view domain = {};
  std::vector<std::string_view> inputs = {};   // empty: left out
  std::vector<std::string_view> outputs = {};  // likewise
  std::vector<OnnxAttribute> attributes = {};
  std::vector<std::string_view> subgraph_reads = {};  // values, those of the subgraphs among them
};

struct OnnxDimension {
  std::optional<int64_t> value = {};
  std::string_view parameter = {};  // "batch"
};

struct OnnxValueInfo {
  std::string_view name = {};
  int64_t type = 0;  // 0: no tensor, or unknown
  std::optional<std::vector<OnnxDimension>> shape = {};
};

struct OnnxModel {
  int64_t opset = 1;  // of the domain "" or "ai.onnx"
  std::string_view graph_name = {};
  std::vector<OnnxNode> nodes = {};
  size_t attributes = 0;  // of all nodes
  std::vector<OnnxTensor> initializers = {};
  std::vector<std::string_view> sparse_initializers = {};
  std::vector<OnnxValueInfo> inputs = {};
  std::vector<OnnxValueInfo> outputs = {};
  std::vector<OnnxValueInfo> intermediates = {};
};

// INVALID_ARGUMENT: the bytes are no ModelProto, have no graph, or more than limits.h and
// segment/limits.h allow. The model points into `bytes`.
[[nodiscard]] absl::StatusOr<OnnxModel> ParseOnnxModel(std::string_view bytes);

}  // namespace kiln::graph
