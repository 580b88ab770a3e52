#include "client/cli/output/json.h"

#include <absl/strings/str_replace.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// The value of `field`; of a repeated field the item at `index`.
Json ValueOf(const google::protobuf::Message& message, const FieldDescriptor* field, int index) {
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

constexpr int kNumberOverflow = 406;  // nlohmann's number for it

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" from "column" on: the text
// is one line.
std::string_view WithoutLibrary(std::string_view text) {
  constexpr std::string_view kPlace = "parse error at line 1, ";
  if (const size_t place = text.find(kPlace); place != std::string_view::npos) {
    return text.substr(place + kPlace.size());
  }
  const size_t end = text.find("] ");
  return end == std::string_view::npos ? text : text.substr(end + 2);
}

bool IsInteger(std::string_view number) {
  return number.find_first_not_of("-0123456789") == std::string_view::npos;
}

// Builds the value from the events of a parse.
class ValueBuilder final : public nlohmann::json_sax<Json> {
 public:
  absl::StatusOr<Json> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

  bool null() override { return PutScalar(nullptr); }
  bool boolean(bool value) override { return PutScalar(value); }
  bool number_integer(Json::number_integer_t value) override { return PutScalar(value); }
  bool number_unsigned(Json::number_unsigned_t value) override { return PutScalar(value); }
  // An integer that is too large for the reader comes as a float.
  bool number_float(Json::number_float_t value, const std::string& number) override {
    return IsInteger(number) ? RefuseNumber(number, "64 bits with a sign") : PutScalar(value);
  }
  bool string(std::string& value) override { return PutScalar(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // in no text

  bool start_object(size_t) override { return Open(Json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    // nlohmann's reader would silently take the last one.
    if (open_.back().value->contains(name)) {
      return Refuse(InvalidArgument("the JSON says \"{}\" twice", name));
    }
    open_.back().name = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string& token, const Json::exception& error) override {
    if (error.id == kNumberOverflow) return RefuseNumber(token, "a double");
    return Refuse(InvalidArgument("this is not JSON{}: {}", Place(", near ", ""),
                                  WithoutLibrary(error.what())));
  }

 private:
  // An object or an array that has not ended yet.
  struct Level {
    Json* value;
    std::string name;  // of the field whose value is read
  };

  bool Refuse(absl::Status why) {
    status_ = std::move(why);
    return false;
  }
  bool RefuseNumber(std::string_view number, std::string_view type) {
    return Refuse(absl::OutOfRangeError(
        fmt::format("{}{} does not fit in {}", Place("", ": "), number, type)));
  }

  // "options.entry.1" between the two: the field that is read, or that ended last. "" without one.
  std::string Place(std::string_view before, std::string_view behind) const {
    std::vector<std::string> parts;
    for (const Level& level : open_) {
      const size_t index = level.value->size() - (&level == &open_.back() ? 0 : 1);
      parts.push_back(level.value->is_array() ? std::to_string(index) : level.name);
    }
    const std::string path = fmt::format("{}", fmt::join(parts, "."));
    return path.empty() ? "" : fmt::format("{}{}{}", before, path, behind);
  }

  Json* Put(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& holder = *open_.back().value;
    if (holder.is_object()) return &(holder[open_.back().name] = std::move(value));
    holder.push_back(std::move(value));
    return &holder.back();
  }
  bool PutScalar(Json value) { return Put(std::move(value)) != nullptr; }
  bool Open(Json empty) {
    // A line of nothing but brackets would otherwise take many times its size in memory.
    if (open_.size() > 2 * limits::kOptionDepthMax) {
      return Refuse(InvalidArgument("the JSON is nested too deep"));
    }
    // What holds it does not grow before it has ended, so it stays where it is.
    Json* const value = Put(std::move(empty));
    open_.push_back({value, ""});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Level> open_;
  absl::Status status_;
};

bool IsLeftOut(const google::protobuf::Message& message, const FieldDescriptor* field) {
  const bool is_absent_scalar = field->has_presence() &&
                                field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
                                !message.GetReflection()->HasField(message, field);
  return is_absent_scalar || field->full_name() == "kiln.v1.StageBlob.content" ||
         field->full_name() == "kiln.v1.CompileDiagnostics.key";  // stands beside the diagnostics
}

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text) {
  ValueBuilder builder;
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DumpPretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

FlatFields Flatten(const Json& json) {
  FlatFields fields;
  const Json flat = json.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (value.is_null() || value == "") continue;
    fields.emplace_back(
        absl::StrReplaceAll(pointer.substr(1), {{"/", "."}, {"~1", "/"}, {"~0", "~"}}),
        value.is_string() ? value.get<std::string>() : Dump(value));
  }
  return fields;
}

Json ToJson(const google::protobuf::Message& message) {
  if (const auto* target = dynamic_cast<const v1::Target*>(&message)) {
    return target->backend().empty() ? "" : TargetName(*target);
  }
  Json json = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (IsLeftOut(message, field)) continue;
    Json& value = json[field->name()];
    if (!field->is_repeated()) {
      value = ValueOf(message, field, 0);
      continue;
    }
    value = Json::array();
    for (int at = 0; at < message.GetReflection()->FieldSize(message, field); ++at) {
      value.push_back(ValueOf(message, field, at));
    }
  }
  if (const auto* metadata = dynamic_cast<const v1::KernelMetadata*>(&message)) {
    json.erase("toolchain_metadata");
    const std::string& text = metadata->toolchain_metadata();
    if (!text.empty()) json["toolchain_metadata"] = ParseJson(text).value_or(Json(text));
  }
  return json;
}

std::string Dump(const google::protobuf::Message& message) { return Dump(ToJson(message)); }

}  // namespace kiln::cli
