// The part of <kiln/graph.h> that builds segments. Needs no libkiln.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <kiln_graph.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::graph {

// What a call of the C interface said.
[[nodiscard]] inline absl::Status StatusOf(kiln_graph_code code) {
  if (code == KILN_GRAPH_OK) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), kiln_graph_error());
}

template <auto close>
struct Closing {
  void operator()(auto* handle) const { close(handle); }
};

// A dimension or a stride: a number, or a sum of products with symbols ("4*batch + 1").
class Dimension {
 public:
  Dimension(int64_t size) : text_(std::to_string(size)) {}  // NOLINT: numbers are sizes
  Dimension(int size) : text_(std::to_string(size)) {}      // NOLINT
  Dimension(std::string text) : text_(std::move(text)) {}   // NOLINT: so are texts
  Dimension(const char* text) : text_(text) {}              // NOLINT
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};
using Shape = std::vector<Dimension>;

// The range of a symbol. 0: `typical` is max, `multiple_of` is 1.
struct SymbolRange {
  int64_t min = 1;
  int64_t max = 1;
  int64_t typical = 0;
  int64_t multiple_of = 0;
};

// As the C interface takes it. The name must outlive it.
inline kiln_graph_symbol SymbolOf(const std::string& name, const SymbolRange& range) {
  kiln_graph_symbol symbol{};
  symbol.size = sizeof symbol;
  symbol.name = name.c_str();
  symbol.min = range.min;
  symbol.max = range.max;
  symbol.typical = range.typical;
  symbol.multiple_of = range.multiple_of;
  return symbol;
}

// What an engine hands over. Values are numbers. The first error is kept, later calls do nothing;
// Plan::Make returns it.
class Segment {
 public:
  explicit Segment(const std::string& name) {
    kiln_graph_segment* opened = nullptr;
    Keep(kiln_graph_segment_open(name.c_str(), &opened));
    handle_.reset(opened);
  }
  // docs/graph.md has the format.
  [[nodiscard]] static absl::StatusOr<Segment> FromJson(std::string_view json) {
    kiln_graph_segment* opened = nullptr;
    const auto code = kiln_graph_segment_open_json(json.data(), json.size(), &opened);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return Segment(opened);
  }

  // The main graph of an ONNX model. Dimensions that the model leaves open, by its names for them.
  [[nodiscard]] static absl::StatusOr<Segment> FromOnnx(
      const std::string& path, const std::map<std::string, SymbolRange>& dimensions = {}) {
    std::vector<kiln_graph_symbol> symbols;
    for (const auto& [name, range] : dimensions) symbols.push_back(SymbolOf(name, range));
    std::vector<const kiln_graph_symbol*> pointers;
    for (const kiln_graph_symbol& symbol : symbols) pointers.push_back(&symbol);
    kiln_graph_segment* opened = nullptr;
    const auto code = kiln_graph_segment_open_onnx(path.c_str(), pointers.data(),
                                                   static_cast<uint32_t>(pointers.size()), &opened);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return Segment(opened);
  }

  void AddSymbol(const std::string& name, const SymbolRange& range) {
    const kiln_graph_symbol symbol = SymbolOf(name, range);
    if (status_.ok()) Keep(kiln_graph_segment_add_symbol(get(), &symbol, nullptr));
  }
  // `strides` in elements; none: row-major.
  int AddInput(const std::string& name, const std::string& type, const Shape& shape,
               const Shape& strides = {}) {
    return AddValue(name, type, shape, strides, KILN_GRAPH_INPUT, {});
  }
  // With its bytes, little endian and row-major, a plan may compute with its elements.
  int AddConstant(const std::string& name, const std::string& type, const Shape& shape,
                  std::string_view bytes = {}) {
    return AddValue(name, type, shape, {}, KILN_GRAPH_CONSTANT, bytes);
  }
  // An operation with one output, whose type and shape are inferred. `attributes`: a JSON object.
  int Add(const std::string& name, const std::vector<int32_t>& inputs,
          const std::string& attributes = "{}") {
    return Add(name, inputs, attributes, 1).front();
  }
  std::vector<int32_t> Add(const std::string& name, const std::vector<int32_t>& inputs,
                           const std::string& attributes, size_t output_count) {
    return AddOperation(name, inputs, std::vector<int32_t>(output_count, KILN_GRAPH_NEW),
                        attributes.c_str(), nullptr);
  }
  // A value between an operation of the engine's and others.
  int AddIntermediate(const std::string& name, const std::string& type, const Shape& shape) {
    return AddValue(name, type, shape, {}, 0, {});
  }
  // An operation that the engine keeps, of any name. It gives the values `outputs`.
  void AddKept(const std::string& name, const std::vector<int32_t>& inputs,
               const std::vector<int32_t>& outputs, const std::string& why) {
    AddOperation(name, inputs, outputs, nullptr, why.c_str());
  }
  void SetOutput(int value, const std::string& name) {
    if (!status_.ok()) return;
    Keep(kiln_graph_segment_set_role(get(), value, KILN_GRAPH_OUTPUT, name.c_str()));
  }

  // The JSON of docs/graph.md, constants included.
  [[nodiscard]] absl::StatusOr<std::string> Json() const {
    if (!status_.ok()) return status_;
    const char* json = "";
    uint64_t bytes = 0;
    const auto code = kiln_graph_segment_get_json(get(), &json, &bytes);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return std::string(json, bytes);
  }
  const absl::Status& status() const { return status_; }
  kiln_graph_segment* get() const { return handle_.get(); }

 private:
  explicit Segment(kiln_graph_segment* opened) : handle_(opened) {}
  void Keep(kiln_graph_code code) {
    if (status_.ok()) status_ = StatusOf(code);
  }
  std::vector<int32_t> AddOperation(const std::string& name, const std::vector<int32_t>& inputs,
                                    std::vector<int32_t> outputs, const char* attributes,
                                    const char* kept_because) {
    kiln_graph_operation operation{};
    operation.size = sizeof operation;
    operation.name = name.c_str();
    operation.inputs = inputs.data();
    operation.input_count = static_cast<uint32_t>(inputs.size());
    operation.outputs = outputs.data();
    operation.output_count = static_cast<uint32_t>(outputs.size());
    operation.attributes = attributes;
    operation.kept_because = kept_because;
    if (status_.ok()) Keep(kiln_graph_segment_add_operation(get(), &operation));
    return outputs;
  }
  int AddValue(const std::string& name, const std::string& type, const Shape& shape,
               const Shape& strides, uint32_t role, std::string_view bytes) {
    std::vector<const char*> sizes;
    for (const Dimension& each : shape) sizes.push_back(each.text());
    std::vector<const char*> steps;
    for (const Dimension& each : strides) steps.push_back(each.text());
    kiln_graph_value value{};
    value.size = sizeof value;
    value.role = role;
    value.name = name.c_str();
    value.type = type.c_str();
    value.rank = static_cast<uint32_t>(sizes.size());
    value.shape = sizes.data();
    if (!steps.empty()) value.strides = steps.data();
    if (!bytes.empty()) value.bytes = bytes.data();
    value.bytes_count = bytes.size();
    int32_t number = KILN_GRAPH_OMITTED;
    if (!steps.empty() && steps.size() != sizes.size()) {
      if (status_.ok())
        status_ = absl::InvalidArgumentError(name + ": a stride for each dimension");
    } else if (status_.ok()) {
      Keep(kiln_graph_segment_add_value(get(), &value, &number));
    }
    return number;
  }

  std::unique_ptr<kiln_graph_segment, Closing<kiln_graph_segment_close>> handle_;
  absl::Status status_;
};

}  // namespace kiln::graph
