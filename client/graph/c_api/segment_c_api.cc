// The part of kiln_graph.h that builds segments.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/graph/c_api/c_edge.h"
#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/operators/lowering.h"
#include "client/graph/operators/operation_check.h"
#include "client/graph/segment/limits.h"
#include "client/graph/segment/segment_json.h"
#include "client/graph/segment/shape.h"
#include "client/graph/segment/size_text.h"
#include "storage/base/status.h"

using namespace kiln::graph;  // NOLINT: this file is their interface

namespace {

template <typename... Arguments>
absl::Status WrongCall(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

absl::Status SetRole(Value& value, uint32_t role) {
  if (role > (KILN_GRAPH_INPUT | KILN_GRAPH_OUTPUT | KILN_GRAPH_CONSTANT)) {
    return WrongCall("value {}: {} is no role", value.name, role);
  }
  value.is_constant = (role & KILN_GRAPH_CONSTANT) != 0;
  value.is_input = value.is_constant || (role & KILN_GRAPH_INPUT) != 0;
  value.is_output = (role & KILN_GRAPH_OUTPUT) != 0;
  return absl::OkStatus();
}

absl::StatusOr<Symbol> SymbolOf(const kiln_graph_symbol* given) {
  kiln_graph_symbol known{};
  KILN_RETURN_IF_ERROR(Read(given, known));
  if (known.name == nullptr) return WrongCall("a symbol has no name");
  return Symbol{.name = known.name,
                .min = known.min,
                .max = known.max,
                .typical = known.typical == 0 ? known.max : known.typical,
                .multiple_of = known.multiple_of == 0 ? 1 : known.multiple_of};
}

absl::StatusOr<std::vector<Size>> SizesOf(const char* const* texts, uint32_t rank,
                                          const std::vector<Symbol>& symbols) {
  std::vector<Size> sizes;
  for (uint32_t i = 0; i < rank; ++i) {
    if (texts[i] == nullptr) return WrongCall("a size is NULL");
    KILN_ASSIGN_OR_RETURN(auto size, ParseSize(texts[i], symbols));
    sizes.push_back(std::move(size));
  }
  return sizes;
}

absl::StatusOr<Value> ValueOf(const kiln_graph_value& given, const std::vector<Symbol>& symbols) {
  if (given.name == nullptr || (given.rank > 0 && given.shape == nullptr)) {
    return WrongCall("a value has no name or shape");
  }
  Value value;
  value.name = given.name;
  value.is_opaque = given.type == nullptr;
  if (!value.is_opaque) {
    const auto type = ParseDType(given.type);
    if (!type) return WrongCall("value {}: \"{:.100}\" is no type", value.name, given.type);
    value.type = *type;
  }
  if (given.rank > kDimensionsMax) {
    return WrongCall("value {}: it has more than {} dimensions", value.name, kDimensionsMax);
  }
  auto shape = SizesOf(given.shape, given.rank, symbols);
  if (!shape.ok())
    return WrongCall("value {}: {}", value.name, std::string(shape.status().message()));
  value.shape = *std::move(shape);
  if (given.strides != nullptr) {
    auto strides = SizesOf(given.strides, given.rank, symbols);
    if (!strides.ok())
      return WrongCall("value {}: {}", value.name, std::string(strides.status().message()));
    value.strides = *std::move(strides);
  }
  KILN_RETURN_IF_ERROR(SetRole(value, given.role));
  if (given.bytes != nullptr) {
    if (!value.is_constant) return WrongCall("value {}: constants alone have bytes", value.name);
    value.bytes = std::make_shared<const std::string>(static_cast<const char*>(given.bytes),
                                                      given.bytes_count);
  }
  return value;
}

// An output's number; a new value where that is asked for.
int OutputOf(int32_t given, Segment& segment) {
  if (given != KILN_GRAPH_NEW) return given;
  const auto number = static_cast<int>(segment.values.size());
  segment.values.push_back({.name = fmt::format("v{}", number)});
  return number;
}

// Gives the values from `first_new` on the types that the operation says.
absl::Status InferNewValues(Segment& segment, const Operation& operation, size_t first_new) {
  const auto number = static_cast<int>(segment.operations.size());
  absl::Status status = CheckOperation(segment, operation, number);
  if (!status.ok() || first_new == segment.values.size()) return status;
  if (!operation.kept_because.empty()) {
    for (size_t i = first_new; i < segment.values.size(); ++i) segment.values[i].is_opaque = true;
    return status;
  }
  const auto inferred = InferOutputs(segment, operation);
  if (!inferred.ok()) {
    return absl::Status(inferred.status().code(),
                        fmt::format("operation {} ({}): {}", number, operation.name,
                                    std::string(inferred.status().message())));
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    if (operation.outputs[i] < static_cast<int>(first_new)) continue;
    if (i >= inferred->size()) {
      return WrongCall("operation {} ({}): it has no output number {}", number, operation.name, i);
    }
    Value& value = segment.values[static_cast<size_t>(operation.outputs[i])];
    value.type = (*inferred)[i].type;
    value.shape = (*inferred)[i].shape;
  }
  return absl::OkStatus();
}

absl::Status AddOperation(Segment& segment, const kiln_graph_operation& given) {
  if (given.name == nullptr || (given.input_count > 0 && given.inputs == nullptr) ||
      (given.output_count > 0 && given.outputs == nullptr)) {
    return WrongCall("an operation has no name, inputs or outputs");
  }
  if (given.input_count > kOperandsMax || given.output_count > kOperandsMax) {
    return WrongCall("an operation has at most {} inputs and outputs", kOperandsMax);
  }
  Operation operation;
  operation.name = given.name;
  operation.inputs.assign(given.inputs, given.inputs + given.input_count);
  if (given.attributes != nullptr) {
    KILN_ASSIGN_OR_RETURN(auto attributes, ReadAttributes(given.attributes));
    operation.attributes = std::move(attributes);
  }
  if (given.kept_because != nullptr) operation.kept_because = given.kept_because;
  const size_t first_new = segment.values.size();
  for (uint32_t i = 0; i < given.output_count; ++i) {
    operation.outputs.push_back(OutputOf(given.outputs[i], segment));
  }
  if (absl::Status status = InferNewValues(segment, operation, first_new); !status.ok()) {
    segment.values.resize(first_new);
    return status;
  }
  std::copy(operation.outputs.begin(), operation.outputs.end(), given.outputs);
  segment.operations.push_back(std::move(operation));
  return absl::OkStatus();
}

// Texts of sizes, which live in the segment.
const char* const* TextsOf(const std::vector<Size>& sizes, kiln_graph_segment& segment) {
  const size_t first = segment.sizes.size();
  for (const Size& size : sizes) {
    segment.texts.push_back(size.ToString(segment.segment.symbols));
    segment.sizes.push_back(segment.texts.back().c_str());
  }
  return segment.sizes.data() + first;
}

}  // namespace

extern "C" {

kiln_graph_code kiln_graph_segment_open(const char* name, kiln_graph_segment** segment) {
  return Guarded({name, segment}, [&] {
    Segment empty;
    empty.name = name;
    *segment = new kiln_graph_segment{.segment = std::move(empty)};
    return absl::OkStatus();
  });
}

void kiln_graph_segment_close(kiln_graph_segment* segment) { delete segment; }

kiln_graph_code kiln_graph_segment_open_onnx(const char* path,
                                             const kiln_graph_symbol* const* dimensions,
                                             uint32_t dimension_count,
                                             kiln_graph_segment** segment) {
  return Guarded({path, segment}, [&]() -> absl::Status {
    if (dimension_count > 0 && dimensions == nullptr) return WrongCall("dimensions is NULL");
    OnnxOptions options;
    for (uint32_t i = 0; i < dimension_count; ++i) {
      if (dimensions[i] == nullptr) return WrongCall("dimension {} is NULL", i);
      KILN_ASSIGN_OR_RETURN(auto symbol, SymbolOf(dimensions[i]));
      options.dimensions.push_back(std::move(symbol));
    }
    auto read = ReadOnnx(path, options);
    if (read.ok()) *segment = new kiln_graph_segment{.segment = *std::move(read)};
    return read.status();
  });
}

kiln_graph_code kiln_graph_segment_add_symbol(kiln_graph_segment* segment,
                                              const kiln_graph_symbol* symbol, int32_t* number) {
  return Guarded({segment, symbol}, [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(auto added, SymbolOf(symbol));
    auto& symbols = segment->segment.symbols;
    symbols.push_back(std::move(added));
    if (number != nullptr) *number = static_cast<int32_t>(symbols.size() - 1);
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_segment_add_value(kiln_graph_segment* segment,
                                             const kiln_graph_value* value, int32_t* number) {
  return Guarded({segment, value}, [&]() -> absl::Status {
    kiln_graph_value known{};
    KILN_RETURN_IF_ERROR(Read(value, known));
    KILN_ASSIGN_OR_RETURN(auto made, ValueOf(known, segment->segment.symbols));
    auto& values = segment->segment.values;
    values.push_back(std::move(made));
    if (number != nullptr) *number = static_cast<int32_t>(values.size() - 1);
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_segment_add_operation(kiln_graph_segment* segment,
                                                 const kiln_graph_operation* operation) {
  return Guarded({segment, operation}, [&]() -> absl::Status {
    kiln_graph_operation known{};
    KILN_RETURN_IF_ERROR(Read(operation, known));
    return AddOperation(segment->segment, known);
  });
}

kiln_graph_code kiln_graph_segment_set_role(kiln_graph_segment* segment, int32_t value,
                                            uint32_t role, const char* name) {
  return Guarded({segment}, [&]() -> absl::Status {
    auto& values = segment->segment.values;
    absl::Status status = CheckNumber(value, values.size(), "values");
    if (!status.ok()) return status;
    Value& changed = values[static_cast<size_t>(value)];
    status = SetRole(changed, role);
    if (status.ok() && name != nullptr) changed.name = name;
    return status;
  });
}

kiln_graph_code kiln_graph_segment_get_info(kiln_graph_segment* segment,
                                            kiln_graph_segment_info* info) {
  return Guarded({segment, info}, [&] {
    const Segment& of = segment->segment;
    return Write({.size = 0,
                  .symbols = static_cast<uint32_t>(of.symbols.size()),
                  .values = static_cast<uint32_t>(of.values.size()),
                  .operations = static_cast<uint32_t>(of.operations.size()),
                  .name = of.name.c_str()},
                 info);
  });
}

kiln_graph_code kiln_graph_segment_get_value(kiln_graph_segment* segment, int32_t number,
                                             kiln_graph_value* value) {
  return Guarded({segment, value}, [&]() -> absl::Status {
    const auto& values = segment->segment.values;
    KILN_RETURN_IF_ERROR(CheckNumber(number, values.size(), "values"));
    const Value& of = values[static_cast<size_t>(number)];
    segment->texts.clear();
    segment->sizes.clear();
    segment->sizes.reserve(2 * of.shape.size());
    kiln_graph_value known{};
    known.role = RoleOf(of);
    known.name = of.name.c_str();
    if (!of.is_opaque) known.type = FactsOf(of.type).name.data();
    known.rank = static_cast<uint32_t>(of.shape.size());
    known.shape = TextsOf(of.shape, *segment);
    if (of.strides) known.strides = TextsOf(*of.strides, *segment);
    if (of.bytes) {
      known.bytes = of.bytes->data();
      known.bytes_count = of.bytes->size();
    }
    return Write(known, value);
  });
}

}  // extern "C"
