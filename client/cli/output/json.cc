#include "client/cli/output/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/parse_json.h"

namespace kiln::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The value of `field`; of a repeated field the item at `index`.
Json ValueOf(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto single, auto repeated) -> Json {
    return field->is_repeated() ? Json((reflection.*repeated)(message, field, index))
                                : Json((reflection.*single)(message, field));
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, index)
                                         : reflection.GetMessage(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      break;
  }
  const Json text = get(&Reflection::GetString, &Reflection::GetRepeatedString);
  return field->type() == FieldDescriptor::TYPE_BYTES ? Json(Hex(text.get<std::string>())) : text;
}

Json ValuesOf(const Message& message, const FieldDescriptor* field) {
  Json values = Json::array();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
    values.push_back(ValueOf(message, field, i));
  }
  return values;
}

// The JSON inside of `text`; the text itself where it is not JSON.
Json ParseInner(const std::string& text) {
  const auto parsed = ParseJson(text);
  return parsed.ok() ? *parsed : Json(text);
}

bool IsLeftOut(const Message& message, const FieldDescriptor* field) {
  const bool is_absent_scalar = field->has_presence() &&
                                field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
                                !message.GetReflection()->HasField(message, field);
  return is_absent_scalar || field->full_name() == "kiln.v1.StageBlob.content" ||
         field->full_name() == "kiln.v1.CompileDiagnostics.key";  // stands beside the diagnostics
}

void AppendFlat(const std::string& name, const Json& json, FlatFields& fields) {
  const auto inside = [&](const std::string& part) {
    return name.empty() ? part : fmt::format("{}.{}", name, part);
  };
  if (json.is_object()) {
    for (const auto& [part, value] : json.items()) AppendFlat(inside(part), value, fields);
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) AppendFlat(inside(std::to_string(i)), json[i], fields);
  } else if (!json.is_null() && json != "") {
    fields.emplace_back(name, json.is_string() ? json.get<std::string>() : Dump(json));
  }
}

}  // namespace

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DumpPretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string DumpFields(const JsonFields& fields) {
  Json json = Json::object();
  for (const auto& [name, value] : fields) {
    std::visit([&json, name = name](const auto& scalar) { json[std::string(name)] = scalar; },
               value);
  }
  return Dump(json);
}

FlatFields Flatten(const Json& json) {
  FlatFields fields;
  AppendFlat("", json, fields);
  return fields;
}

FlatFields Flatten(const Message& message) { return Flatten(ToJson(message)); }

absl::StatusOr<int64_t> ToInt64(const Json& json) {
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidArgument("{} does not fit in 64 bits with a sign", json.get<uint64_t>());
  }
  return json.get<int64_t>();
}

Json ToJson(const Message& message) {
  if (const auto* target = dynamic_cast<const v1::Target*>(&message)) {
    return target->backend().empty() ? "" : TargetName(*target);
  }
  Json json = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (IsLeftOut(message, field)) continue;
    json[field->name()] =
        field->is_repeated() ? ValuesOf(message, field) : ValueOf(message, field, 0);
  }
  if (const auto* metadata = dynamic_cast<const v1::KernelMetadata*>(&message)) {
    json.erase("toolchain_metadata");
    const std::string& text = metadata->toolchain_metadata();
    if (!text.empty()) json["toolchain_metadata"] = ParseInner(text);
  }
  return json;
}

std::string Dump(const Message& message) { return Dump(ToJson(message)); }

}  // namespace kiln::cli
