#include "client/cli/requests/request_json.h"

#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/json.h"
#include "client/cli/requests/ptxas_selector.h"
#include "storage/base/limits.h"
#include "storage/base/utf8.h"

namespace kiln::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// "launch.num_warps".
std::string Inside(const std::string& place, std::string_view name) {
  return place.empty() ? std::string(name) : fmt::format("{}.{}", place, name);
}

absl::Status Wrong(const Json& json, const std::string& place, std::string_view expected) {
  return InvalidArgument("{} is {}, not {}", place.empty() ? "the request" : place,
                         json.is_number_float() ? Dump(json) : json.type_name(), expected);
}

absl::StatusOr<std::string> TextOf(const Json& json, const std::string& place) {
  if (!json.is_string()) return Wrong(json, place, "a string");
  const auto& text = json.get_ref<const std::string&>();
  if (!IsValidUtf8(text)) return InvalidArgument("{} is not valid UTF-8", place);
  return text;
}

// `value`, with its place in front of an error.
template <typename Value>
absl::StatusOr<Value> At(const std::string& place, absl::StatusOr<Value> value) {
  if (!value.ok()) return Annotate(value.status(), place);
  return value;
}

absl::StatusOr<int64_t> IntegerOf(const Json& json, const std::string& place) {
  if (!json.is_number_integer()) return Wrong(json, place, "an integer");
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) {
    return InvalidArgument("{}: {} does not fit in 64 bits with a sign", place, Dump(json));
  }
  return json.get<int64_t>();
}

// Booleans, integers, floats and strings keep their type. An array is a tuple.
absl::Status ReadOption(const Json& json, const std::string& place, size_t depth,
                        v1::OptionValue& value) {
  switch (json.type()) {
    case Json::value_t::boolean:
      value.set_bool_value(json.get<bool>());
      return absl::OkStatus();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: {
      KILN_ASSIGN_OR_RETURN(const int64_t integer, IntegerOf(json, place));
      value.set_int_value(integer);
      return absl::OkStatus();
    }
    case Json::value_t::number_float:
      value.set_double_value(json.get<double>());
      return absl::OkStatus();
    case Json::value_t::string: {
      KILN_ASSIGN_OR_RETURN(*value.mutable_string_value(), TextOf(json, place));
      return absl::OkStatus();
    }
    case Json::value_t::array:
      if (depth >= limits::kOptionDepthMax) {
        return InvalidArgument("{}: tuples are nested deeper than {}", place,
                               limits::kOptionDepthMax);
      }
      value.mutable_tuple_value();
      for (size_t i = 0; i < json.size(); ++i) {
        KILN_RETURN_IF_ERROR(ReadOption(json[i], Inside(place, std::to_string(i)), depth + 1,
                                        *value.mutable_tuple_value()->add_items()));
      }
      return absl::OkStatus();
    default:
      return Wrong(json, place, "an option value: a boolean, a number, a string or an array");
  }
}

absl::Status ReadFields(const Json& object, const std::string& place,
                        google::protobuf::Message& message);

// The field's value; of a repeated field one more item.
absl::Status ReadItem(const Json& json, const std::string& place, const FieldDescriptor* field,
                      google::protobuf::Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const auto put = [&](auto set, auto add, auto value) {
    if (field->is_repeated()) {
      (reflection.*add)(&message, field, std::move(value));
    } else {
      (reflection.*set)(&message, field, std::move(value));
    }
    return absl::OkStatus();
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!json.is_boolean()) return Wrong(json, place, "a boolean");
      return put(&Reflection::SetBool, &Reflection::AddBool, json.get<bool>());
    case FieldDescriptor::CPPTYPE_INT64: {
      KILN_ASSIGN_OR_RETURN(const int64_t integer, IntegerOf(json, place));
      return put(&Reflection::SetInt64, &Reflection::AddInt64, integer);
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      KILN_ASSIGN_OR_RETURN(std::string text, TextOf(json, place));
      return put(&Reflection::SetString, &Reflection::AddString, std::move(text));
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      KILN_ASSIGN_OR_RETURN(const std::string word, TextOf(json, place));
      KILN_ASSIGN_OR_RETURN(const int value, At(place, ParseWord(*field->enum_type(), word)));
      return put(&Reflection::SetEnumValue, &Reflection::AddEnumValue, value);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      google::protobuf::Message& inner = field->is_repeated()
                                             ? *reflection.AddMessage(&message, field)
                                             : *reflection.MutableMessage(&message, field);
      if (auto* option = dynamic_cast<v1::OptionValue*>(&inner)) {
        return ReadOption(json, place, 0, *option);
      }
      if (auto* target = dynamic_cast<v1::Target*>(&inner)) {
        KILN_ASSIGN_OR_RETURN(const std::string text, TextOf(json, place));
        KILN_ASSIGN_OR_RETURN(*target, At(place, ParseTarget(text)));
        return absl::OkStatus();
      }
      return ReadFields(json, place, inner);
    }
    default:
      return Internal("requests have no fields like {}", field->full_name());
  }
}

// null means absent, also in an object of named values.
absl::Status ReadField(const Json& json, const std::string& place, const FieldDescriptor* field,
                       google::protobuf::Message& message) {
  if (json.is_null()) return absl::OkStatus();
  if (field->is_map()) {
    if (!json.is_object()) return Wrong(json, place, "an object");
    for (const auto& [name, value] : json.items()) {
      if (value.is_null()) continue;
      google::protobuf::Message& entry = *message.GetReflection()->AddMessage(&message, field);
      entry.GetReflection()->SetString(&entry, field->message_type()->map_key(), name);
      KILN_RETURN_IF_ERROR(
          ReadItem(value, Inside(place, name), field->message_type()->map_value(), entry));
    }
    return absl::OkStatus();
  }
  if (!field->is_repeated()) return ReadItem(json, place, field, message);
  if (!json.is_array()) return Wrong(json, place, "an array");
  for (size_t i = 0; i < json.size(); ++i) {
    KILN_RETURN_IF_ERROR(ReadItem(json[i], Inside(place, std::to_string(i)), field, message));
  }
  return absl::OkStatus();
}

absl::Status ReadNamed(const Json& json, const std::string& place, const std::string& name,
                       google::protobuf::Message& message) {
  return ReadField(json, place, message.GetDescriptor()->FindFieldByName(name), message);
}

// A path means the file's bytes: the daemon may have them under another.
absl::Status ReadPtxas(const Json& json, const std::string& place, v1::CompileRequest& request) {
  KILN_ASSIGN_OR_RETURN(const std::string word, TextOf(json, place));
  KILN_ASSIGN_OR_RETURN(*request.mutable_ptxas(), At(place, PtxasSelector(word)));
  return absl::OkStatus();
}

// {"name.h": "text", …}
absl::Status ReadHeaders(const Json& json, const std::string& place, v1::CompileRequest& request) {
  if (!json.is_object()) return Wrong(json, place, "an object");
  for (const auto& [name, text] : json.items()) {
    v1::SourceHeader& header = *request.add_headers();
    header.set_name(name);
    KILN_ASSIGN_OR_RETURN(*header.mutable_text(), TextOf(text, Inside(place, name)));
  }
  return absl::OkStatus();
}

// Fields that stand for options of NVRTC.
constexpr std::pair<const char*, const char*> kNvrtcOptions[] = {
    {"defines", "define-macro"}, {"std", "std"}, {"name_expressions", "name-expressions"}};

// The fields of a request that are not in the message, or are written in another way there.
constexpr std::string_view kOwnFields[] = {
    "name",    "source_file", "source",           "kind",    "ptxas", "headers",
    "defines", "std",         "name_expressions", "recorded"};

bool IsOwn(std::string_view field) {
  return std::find(std::begin(kOwnFields), std::end(kOwnFields), field) != std::end(kOwnFields);
}

absl::Status ReadOwn(std::string_view field, const Json& json, const std::string& place,
                     v1::CompileRequest& request) {
  if (field == "source") return ReadNamed(json, place, "text", *request.mutable_source());
  if (field == "kind") return ReadNamed(json, place, "kind", *request.mutable_source());
  if (field == "ptxas") return ReadPtxas(json, place, request);
  if (field == "headers") return ReadHeaders(json, place, request);
  if (field == "name" || field == "source_file") return TextOf(json, place).status();
  return absl::OkStatus();  // ReadNvrtcOptions and RequestFile read the others
}

// Fields go by their names in protos/, but for a request's own.
absl::Status ReadFields(const Json& object, const std::string& place,
                        google::protobuf::Message& message) {
  if (!object.is_object()) return Wrong(object, place, "an object");
  auto* const request = dynamic_cast<v1::CompileRequest*>(&message);
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (const auto& [name, value] : object.items()) {
    const FieldDescriptor* const field = type.FindFieldByName(name);
    if (request != nullptr && IsOwn(name)) {
      if (value.is_null()) continue;
      KILN_RETURN_IF_ERROR(ReadOwn(name, value, name, *request));
    } else if (field != nullptr) {
      KILN_RETURN_IF_ERROR(ReadField(value, Inside(place, name), field, message));
    } else {
      std::set<std::string_view> known;
      if (request != nullptr) known.insert(std::begin(kOwnFields), std::end(kOwnFields));
      for (int i = 0; i < type.field_count(); ++i) known.insert(type.field(i)->name());
      return InvalidArgument("there is no field '{}'; there are {}", Inside(place, name),
                             fmt::join(known, " "));
    }
  }
  return absl::OkStatus();
}

// The fields of a request that decide the bytes and are written as they are.
const std::set<std::string_view> kWrittenFields = {"target",  "specialization", "launch",
                                                   "options", "toolchain",      "ptxas"};

Json OptionJson(const v1::OptionValue& value) {
  switch (value.value_case()) {
    case v1::OptionValue::kBoolValue:
      return value.bool_value();
    case v1::OptionValue::kIntValue:
      return value.int_value();
    case v1::OptionValue::kDoubleValue:
      return value.double_value();
    case v1::OptionValue::kStringValue:
      return value.string_value();
    case v1::OptionValue::kTupleValue: {
      Json items = Json::array();
      for (const v1::OptionValue& item : value.tuple_value().items()) {
        items.push_back(OptionJson(item));
      }
      return items;
    }
    default:
      return nullptr;
  }
}

Json FieldsJson(const google::protobuf::Message& message);

// The inverse of ReadItem.
Json ItemJson(const google::protobuf::Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool is_item = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return is_item ? reflection.GetRepeatedInt64(message, field, index)
                     : reflection.GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, field);
    default: {
      const google::protobuf::Message& inner =
          is_item ? reflection.GetRepeatedMessage(message, field, index)
                  : reflection.GetMessage(message, field);
      if (const auto* option = dynamic_cast<const v1::OptionValue*>(&inner)) {
        return OptionJson(*option);
      }
      if (const auto* target = dynamic_cast<const v1::Target*>(&inner)) {
        const std::string name = TargetName(*target);
        return target->warp_size() == 0 ? name : fmt::format("{}:{}", name, target->warp_size());
      }
      return FieldsJson(inner);
    }
  }
}

// The inverse of ReadField.
Json FieldJson(const google::protobuf::Message& message, const FieldDescriptor* field) {
  if (!field->is_repeated()) return ItemJson(message, field, 0);
  const Reflection& reflection = *message.GetReflection();
  const int count = reflection.FieldSize(message, field);
  Json items = field->is_map() ? Json::object() : Json::array();
  std::map<std::string, Json> sorted;  // a map of the message has no order
  for (int i = 0; i < count; ++i) {
    if (!field->is_map()) {
      items.push_back(ItemJson(message, field, i));
      continue;
    }
    const google::protobuf::Message& entry = reflection.GetRepeatedMessage(message, field, i);
    sorted[entry.GetReflection()->GetString(entry, field->message_type()->map_key())] =
        ItemJson(entry, field->message_type()->map_value(), 0);
  }
  for (auto& [name, value] : sorted) items[name] = std::move(value);
  return items;
}

// Every field that is set.
Json FieldsJson(const google::protobuf::Message& message) {
  Json json = Json::object();
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) json[field->name()] = FieldJson(message, field);
  return json;
}

bool IsGiven(const Json& object, const char* name) {
  return object.contains(name) && !object.at(name).is_null();
}

absl::Status ReadNvrtcOptions(const Json& object, v1::CompileRequest& request) {
  for (const auto& [word, option] : kNvrtcOptions) {
    if (!IsGiven(object, word)) continue;
    if (request.options().contains(option)) {
      return InvalidArgument("'{}' is the option '{}'; give one of the two", word, option);
    }
    v1::OptionValue& value = (*request.mutable_options())[option];
    KILN_RETURN_IF_ERROR(ReadOption(object.at(word), word, 0, value));
  }
  return absl::OkStatus();
}

absl::Status ReadSourceFile(const std::string& path, const std::string& folder,
                            v1::CompileRequest& request) {
  const std::string full = std::filesystem::path(folder) / path;
  KILN_ASSIGN_OR_RETURN(*request.mutable_source()->mutable_text(),
                        At("source_file", ReadSource(full)));
  if (request.source().kind() == v1::SOURCE_KIND_UNSPECIFIED) {
    request.mutable_source()->set_kind(SourceKindOfFile(path));
  }
  return absl::OkStatus();
}

// What the shell can hand over unquoted: 8, 1e-5, true, [1,2,3], fp16.
absl::StatusOr<Json> ReadValue(std::string_view text) {
  absl::StatusOr<Json> parsed = ParseJson(text);
  if (absl::IsOutOfRange(parsed.status()))
    return InvalidArgument("{}", kiln::Message(parsed.status()));
  if (!parsed.ok() || parsed->is_object()) return Json(text);
  return parsed;
}

}  // namespace

absl::StatusOr<v1::CompileRequest> ParseRequest(const Json& json, const std::string& folder) {
  v1::CompileRequest request;
  KILN_RETURN_IF_ERROR(ReadFields(json, "", request));
  KILN_RETURN_IF_ERROR(ReadNvrtcOptions(json, request));
  const bool has_file = IsGiven(json, "source_file");
  if (IsGiven(json, "source") == has_file) {
    return InvalidArgument("give either 'source' or 'source_file'");
  }
  if (has_file) {
    const auto& path = json.at("source_file").get_ref<const std::string&>();
    KILN_RETURN_IF_ERROR(ReadSourceFile(path, folder, request));
  }
  if (request.source().kind() == v1::SOURCE_KIND_UNSPECIFIED) {
    request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  }
  return request;
}

Json RequestJson(const v1::CompileRequest& request) {
  Json json = {{"kind", WordOf(request.source().kind())}};
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* field : fields) {
    if (kWrittenFields.contains(field->name())) json[field->name()] = FieldJson(request, field);
  }
  for (const v1::SourceHeader& header : request.headers()) {
    json["headers"][header.name()] = header.text();
  }
  json["source"] = request.source().text();
  return json;
}

Digest RequestDigest(const v1::CompileRequest& request) {
  Json json = RequestJson(request);
  json.erase("source");
  json["source_sha256"] = Digest::Of(request.source().text()).Hex();
  // Ascending names, whatever the order in which they were set.
  return Digest::Of(Dump(Json(nlohmann::json(json))));
}

absl::Status SetField(std::string_view field, const Json& value, const std::string& place,
                      v1::CompileRequest& request) {
  if (IsOwn(field)) return ReadOwn(field, value, place, request);
  return ReadNamed(value, place, std::string(field), request);
}

absl::Status SetOptions(const std::vector<std::string>& assignments, v1::CompileRequest& request) {
  std::set<std::string> seen;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return InvalidArgument("--option '{}' is not name=value; a flag takes true, as {}=true",
                             assignment, equals == 0 ? "fmad" : assignment);
    }
    const std::string name = assignment.substr(0, equals);
    const std::string place = "--option " + name;
    if (!IsValidUtf8(name)) return InvalidArgument("{} is not valid UTF-8", place);
    if (!seen.insert(name).second) return InvalidArgument("{} is given twice", place);
    KILN_ASSIGN_OR_RETURN(const Json value, At(place, ReadValue(assignment.substr(equals + 1))));
    if (value.is_null()) continue;
    KILN_RETURN_IF_ERROR(ReadOption(value, place, 0, (*request.mutable_options())[name]));
  }
  return absl::OkStatus();
}

absl::Status CheckSource(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  // Opening a pipe or a device could block for ever.
  if (!S_ISREG(status.st_mode)) return InvalidArgument("{} is not a regular file", path);
  if (::access(path.c_str(), R_OK) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSource(const std::string& path) {
  KILN_RETURN_IF_ERROR(CheckSource(path));
  std::ifstream stream(path, std::ios::binary);
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  std::string text(std::min<uintmax_t>(size, limits::kSourceBytesMax + 1), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

std::string ContractName(std::string_view name) {
  // Through JSON, whose writer knows how to replace what is not UTF-8.
  std::string valid = Json::parse(Dump(Json(name))).get<std::string>();
  if (valid.size() <= limits::kNameBytesMax) return valid;
  size_t end = limits::kNameBytesMax;
  while (end > 0 && (static_cast<unsigned char>(valid[end]) & 0xC0) == 0x80) --end;
  return valid.substr(0, end);
}

}  // namespace kiln::cli
