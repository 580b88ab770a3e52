#include "client/graph/segment/segment_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "client/graph/segment/limits.h"
#include "client/graph/segment/size_text.h"

namespace kiln::graph {
namespace {

using Json = nlohmann::ordered_json;

// Thrown within this file alone: the first thing that is wrong.
struct Wrong {
  std::string message;
};

[[noreturn]] void Refuse(std::string_view where, std::string_view what) {
  throw Wrong{fmt::format("{}: {}", where, what)};
}

// A JSON value, and its place for messages.
class Field {
 public:
  Field(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  [[noreturn]] void Refuse(std::string_view what) const { graph::Refuse(where_, what); }

  // Only members of these names.
  void Expect(std::initializer_list<std::string_view> names) const {
    if (!json_.is_object()) Refuse("an object is expected");
    for (const auto& member : json_.items()) {
      if (std::ranges::count(names, std::string_view(member.key())) == 0) {
        Refuse(fmt::format("it has no field \"{:.100}\"; there are {}", member.key(),
                           fmt::join(names, ", ")));
      }
    }
  }
  bool Has(const char* name) const { return json_.contains(name); }
  Field At(const char* name) const {
    if (!json_.contains(name)) Refuse(fmt::format("\"{}\" is missing", name));
    return {json_[name], where_.empty() ? name : fmt::format("{}.{}", where_, name)};
  }
  // The elements of an array; none where the member is absent.
  std::vector<Field> Each(const char* name, size_t max) const {
    if (!Has(name)) return {};
    const Field array = At(name);
    if (!array.json_.is_array()) array.Refuse("an array is expected");
    if (array.json_.size() > max) array.Refuse(fmt::format("it has more than {} elements", max));
    std::vector<Field> elements;
    elements.reserve(array.json_.size());
    for (const Json& element : array.json_) {
      elements.emplace_back(element, fmt::format("{}[{}]", array.where_, elements.size()));
    }
    return elements;
  }
  std::string Text() const {
    if (!json_.is_string()) Refuse("a string is expected");
    const auto& text = json_.get_ref<const std::string&>();
    if (text.size() > kNameBytesMax) Refuse(fmt::format("it has over {} bytes", kNameBytesMax));
    return text;
  }
  int64_t Integer() const {
    if (!json_.is_number_integer()) Refuse("an integer is expected");
    if (json_.is_number_unsigned() && json_.get<uint64_t>() > INT64_MAX) Refuse("it is too large");
    return json_.get<int64_t>();
  }
  int64_t IntegerAt(const char* name, int64_t otherwise) const {
    return Has(name) ? At(name).Integer() : otherwise;
  }

 private:
  const Json& json_;
  std::string where_;
};

Symbol ReadSymbol(const Field& field) {
  field.Expect({"name", "min", "max", "typical", "multiple_of"});
  Symbol symbol;
  symbol.name = field.At("name").Text();
  if (!IsSymbolName(symbol.name)) field.At("name").Refuse("a name has letters, digits and _ alone");
  symbol.min = field.IntegerAt("min", 1);
  symbol.max = field.At("max").Integer();
  symbol.typical = field.IntegerAt("typical", symbol.max);
  symbol.multiple_of = field.IntegerAt("multiple_of", 1);
  if (symbol.min < 0) field.Refuse("min is negative");
  if (symbol.min > symbol.max) field.Refuse("min is larger than max");
  if (symbol.typical < symbol.min || symbol.typical > symbol.max) {
    field.Refuse("typical lies outside of min and max");
  }
  if (symbol.multiple_of < 1) field.Refuse("multiple_of is less than 1");
  return symbol;
}

Size ReadSize(const Field& field, const std::vector<Symbol>& symbols) {
  if (field.json().is_number_integer()) return field.Integer();
  const auto size = ParseSize(field.Text(), symbols);
  if (!size.ok()) field.Refuse(std::string(size.status().message()));
  return *size;
}

std::vector<Size> ReadSizes(const Field& field, const char* name,
                            const std::vector<Symbol>& symbols) {
  std::vector<Size> sizes;
  for (const Field& each : field.Each(name, kDimensionsMax))
    sizes.push_back(ReadSize(each, symbols));
  return sizes;
}

Value ReadValue(const Field& field, const std::vector<Symbol>& symbols) {
  field.Expect({"name", "type", "shape", "strides", "role", "data"});
  Value value;
  value.name = field.At("name").Text();
  value.is_opaque = !field.Has("type");
  if (!value.is_opaque) {
    const Field type = field.At("type");
    const auto parsed = ParseDType(type.Text());
    if (!parsed) type.Refuse(fmt::format("\"{:.100}\" is no type", type.Text()));
    value.type = *parsed;
  }
  value.shape = ReadSizes(field, "shape", symbols);
  if (field.Has("strides")) {
    value.strides = ReadSizes(field, "strides", symbols);
    if (value.strides->size() != value.shape.size()) {
      field.At("strides").Refuse("there is one stride for each dimension");
    }
  }
  const std::string role = field.Has("role") ? field.At("role").Text() : "intermediate";
  value.is_constant = role == "constant";
  value.is_input = role == "input" || value.is_constant;
  value.is_output = role == "output";
  if (!value.is_input && !value.is_output && role != "intermediate") {
    field.At("role").Refuse("it is input, constant, output or intermediate");
  }
  if (field.Has("data")) {
    const Field data = field.At("data");
    if (!value.is_constant) data.Refuse("constants alone have data");
    std::string bytes;
    if (!data.json().is_string() ||
        !absl::Base64Unescape(data.json().get_ref<const std::string&>(), &bytes)) {
      data.Refuse("a string in Base64 is expected");
    }
    value.bytes = std::make_shared<const std::string>(std::move(bytes));
  }
  return value;
}

Attribute ReadAttribute(const Field& field) {
  const Json& json = field.json();
  if (json.is_boolean()) return int64_t{json.get<bool>()};
  if (json.is_number_integer()) return field.Integer();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return field.Text();
  if (!json.is_array() || json.size() > kOperandsMax) {
    field.Refuse("a number, a string or an array of numbers is expected");
  }
  if (std::ranges::all_of(json, [](const Json& each) { return each.is_number_integer(); })) {
    return json.get<std::vector<int64_t>>();
  }
  if (!std::ranges::all_of(json, [](const Json& each) { return each.is_number(); })) {
    field.Refuse("an array of numbers is expected");
  }
  return json.get<std::vector<double>>();
}

Attributes ReadAttributes(const Field& field) {
  if (!field.json().is_object()) field.Refuse("an object is expected");
  if (field.json().size() > kAttributesMax) field.Refuse("there are too many");
  Attributes attributes;
  for (const auto& member : field.json().items()) {
    attributes[member.key()] =
        ReadAttribute({member.value(), fmt::format("{}.{}", field.where(), member.key())});
  }
  return attributes;
}

using Numbers = std::unordered_map<std::string, int>;

std::vector<int> ReadOperands(const Field& field, const char* name, const Numbers& numbers) {
  std::vector<int> operands;
  for (const Field& each : field.Each(name, kOperandsMax)) {
    if (each.json().is_null()) {
      operands.push_back(kOmitted);
      continue;
    }
    const auto number = numbers.find(each.Text());
    if (number == numbers.end()) {
      each.Refuse(fmt::format("no value has the name \"{:.100}\"", each.Text()));
    }
    operands.push_back(number->second);
  }
  return operands;
}

Operation ReadOperation(const Field& field, const Numbers& numbers) {
  field.Expect({"op", "inputs", "outputs", "attributes", "kept_because"});
  Operation operation;
  operation.name = field.At("op").Text();
  if (field.Has("kept_because")) operation.kept_because = field.At("kept_because").Text();
  operation.inputs = ReadOperands(field, "inputs", numbers);
  operation.outputs = ReadOperands(field, "outputs", numbers);
  if (field.Has("attributes")) operation.attributes = ReadAttributes(field.At("attributes"));
  return operation;
}

Segment ReadFields(const Field& field) {
  field.Expect({"kiln_segment", "name", "symbols", "values", "operations"});
  const int64_t version = field.At("kiln_segment").Integer();
  if (version != kSegmentVersion) {
    field.At("kiln_segment")
        .Refuse(fmt::format("this Kiln reads version {}, not {}", kSegmentVersion, version));
  }
  Segment segment;
  segment.name = field.Has("name") ? field.At("name").Text() : "segment";
  for (const Field& each : field.Each("symbols", kSymbolsMax)) {
    segment.symbols.push_back(ReadSymbol(each));
  }
  Numbers numbers;
  for (const Field& each : field.Each("values", kValuesMax)) {
    segment.values.push_back(ReadValue(each, segment.symbols));
    const bool is_new =
        numbers.emplace(segment.values.back().name, static_cast<int>(numbers.size())).second;
    if (!is_new) each.Refuse("another value has the same name");
  }
  for (const Field& each : field.Each("operations", kOperationsMax)) {
    segment.operations.push_back(ReadOperation(each, numbers));
  }
  return segment;
}

// What `read` makes of a text, or the first thing that is wrong with it.
template <typename Read>
auto Parse(std::string_view json, std::string where, Read read)
    -> absl::StatusOr<decltype(read(std::declval<const Field&>()))> {
  if (json.size() > kSegmentBytesMax) {
    return absl::InvalidArgumentError(fmt::format("it has over {} bytes", kSegmentBytesMax));
  }
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("it is not JSON");
  try {
    return read({parsed, std::move(where)});
  } catch (const Wrong& wrong) {
    return absl::InvalidArgumentError(wrong.message);
  }
}

// --- Writing ---

Json SizeJson(const Size& size, const std::vector<Symbol>& symbols) {
  if (const auto constant = size.Constant()) return *constant;
  return size.ToString(symbols);
}

Json SizesJson(const std::vector<Size>& sizes, const std::vector<Symbol>& symbols) {
  Json json = Json::array();
  for (const Size& size : sizes) json.push_back(SizeJson(size, symbols));
  return json;
}

Json ValueJson(const Value& value, const std::vector<Symbol>& symbols) {
  Json json{{"name", value.name}};
  if (!value.is_opaque) {
    json["type"] = FactsOf(value.type).name;
    json["shape"] = SizesJson(value.shape, symbols);
  }
  if (value.strides) json["strides"] = SizesJson(*value.strides, symbols);
  if (value.is_constant) {
    json["role"] = "constant";
  } else if (value.is_input) {
    json["role"] = "input";
  } else if (value.is_output) {
    json["role"] = "output";
  }
  if (value.bytes) json["data"] = absl::Base64Escape(*value.bytes);
  return json;
}

Json OperationJson(const Operation& operation, const std::vector<Value>& values) {
  const auto names = [&values](const std::vector<int>& numbers) {
    Json json = Json::array();
    for (const int number : numbers) {
      json.push_back(number == kOmitted ? Json() : Json(values[static_cast<size_t>(number)].name));
    }
    return json;
  };
  Json json{{"op", operation.name}};
  json["inputs"] = names(operation.inputs);
  json["outputs"] = names(operation.outputs);
  if (!operation.kept_because.empty()) json["kept_because"] = operation.kept_because;
  for (const auto& [name, attribute] : operation.attributes) {
    std::visit([&json, &name = name](const auto& held) { json["attributes"][name] = held; },
               attribute);
  }
  return json;
}

Json SymbolJson(const Symbol& symbol) {
  return {{"name", symbol.name},
          {"min", symbol.min},
          {"max", symbol.max},
          {"typical", symbol.typical},
          {"multiple_of", symbol.multiple_of}};
}

// Names may hold bytes that are no UTF-8.
std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AddLines(std::string_view name, const std::vector<Json>& elements, std::string& text) {
  text += fmt::format(",\n\"{}\": [", name);
  for (size_t i = 0; i < elements.size(); ++i) {
    text += (i == 0 ? "\n  " : ",\n  ") + JsonText(elements[i]);
  }
  text += "\n]";
}

}  // namespace

absl::StatusOr<Segment> ReadSegment(std::string_view json) {
  return Parse(json, "", [](const Field& field) { return ReadFields(field); });
}

absl::StatusOr<Attributes> ReadAttributes(std::string_view json) {
  return Parse(json, "attributes", [](const Field& field) { return ReadAttributes(field); });
}

std::string WriteSegment(const Segment& segment) {
  std::vector<Json> symbols;
  std::vector<Json> values;
  std::vector<Json> operations;
  for (const Symbol& symbol : segment.symbols) symbols.push_back(SymbolJson(symbol));
  for (const Value& value : segment.values) values.push_back(ValueJson(value, segment.symbols));
  for (const Operation& operation : segment.operations) {
    operations.push_back(OperationJson(operation, segment.values));
  }
  std::string text =
      fmt::format("{{\"kiln_segment\": {}, \"name\": {}", kSegmentVersion, JsonText(segment.name));
  AddLines("symbols", symbols, text);
  AddLines("values", values, text);
  AddLines("operations", operations, text);
  return text + "\n}\n";
}

}  // namespace kiln::graph
