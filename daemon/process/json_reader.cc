#include "daemon/process/json_reader.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

const Json& EmptyArray() {
  static const Json* const array = new Json(Json::array());
  return *array;
}
const Json& EmptyObject() {
  static const Json* const object = new Json(Json::object());
  return *object;
}

}  // namespace

JsonReader::JsonReader(const Json& json, std::string_view what) : json_(json), what_(what) {
  if (!json_.is_object()) status_ = Internal("{} is not an object", what_);
}

void JsonReader::Fail(std::string_view field, std::string_view expected) {
  if (status_.ok()) status_ = Internal("{}: {} is not {}", what_, field, expected);
}

const Json& JsonReader::Find(const char* field) const {
  static const Json* const null = new Json();
  const auto found = json_.is_object() ? json_.find(field) : json_.end();
  return found == json_.end() ? *null : *found;
}

bool JsonReader::Has(const char* field) const { return !Find(field).is_null(); }

std::string JsonReader::String(const char* field, size_t bytes_max) {
  const Json& value = Find(field);
  const auto* text = value.get_ptr<const std::string*>();
  if (text == nullptr || text->size() > bytes_max) {
    Fail(field, fmt::format("a string of at most {} bytes", bytes_max));
    return "";
  }
  return *text;
}

uint64_t JsonReader::Count(const char* field, uint64_t max) {
  const Json& value = Find(field);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > max) {
    Fail(field, fmt::format("a whole number from 0 to {}", max));
    return 0;
  }
  return value.get<uint64_t>();
}

bool JsonReader::Bool(const char* field) {
  const Json& value = Find(field);
  if (!value.is_boolean()) {
    Fail(field, "true or false");
    return false;
  }
  return value.get<bool>();
}

const Json& JsonReader::Array(const char* field, size_t size_max) {
  const Json& value = Find(field);
  if (!value.is_array() || value.size() > size_max) {
    Fail(field, fmt::format("an array of at most {}", size_max));
    return EmptyArray();
  }
  return value;
}

const Json& JsonReader::Object(const char* field) {
  const Json& value = Find(field);
  if (!value.is_object()) {
    Fail(field, "an object");
    return EmptyObject();
  }
  return value;
}

std::vector<std::string> JsonReader::Strings(const char* field, size_t size_max, size_t bytes_max) {
  std::vector<std::string> strings;
  for (const Json& item : Array(field, size_max)) {
    const auto* text = item.get_ptr<const std::string*>();
    if (text == nullptr || text->size() > bytes_max) {
      Fail(field, "an array of short strings");
      return {};
    }
    strings.push_back(*text);
  }
  return strings;
}

}  // namespace kiln
