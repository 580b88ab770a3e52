#include "daemon/process/json_reader.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

// Stands for a field that is missing or wrong. It has no elements.
const Json& Null() {
  static const Json* const null = new Json();
  return *null;
}

}  // namespace

JsonReader::JsonReader(const Json& json, std::string_view what) : json_(json), what_(what) {
  if (!json_.is_object()) status_ = Internal("{} is not an object", what_);
}

void JsonReader::Fail(std::string_view field, std::string_view expected) {
  if (status_.ok()) status_ = Internal("{}: {} is not {}", what_, field, expected);
}

const Json& JsonReader::Find(const char* field) const {
  const auto found = json_.is_object() ? json_.find(field) : json_.end();
  return found == json_.end() ? Null() : *found;
}

bool JsonReader::Has(const char* field) const { return !Find(field).is_null(); }

std::string JsonReader::String(const char* field, size_t bytes_max) {
  const Json& value = Find(field);
  const auto* text = value.get_ptr<const std::string*>();
  if (text != nullptr && text->size() <= bytes_max) return *text;
  Fail(field, fmt::format("a string of at most {} bytes", bytes_max));
  return "";
}

uint64_t JsonReader::Count(const char* field, uint64_t max) {
  const Json& value = Find(field);
  if (value.is_number_unsigned() && value.get<uint64_t>() <= max) return value.get<uint64_t>();
  Fail(field, fmt::format("a whole number from 0 to {}", max));
  return 0;
}

bool JsonReader::Bool(const char* field) {
  const Json& value = Find(field);
  if (value.is_boolean()) return value.get<bool>();
  Fail(field, "true or false");
  return false;
}

const Json& JsonReader::Array(const char* field, size_t size_max) {
  const Json& value = Find(field);
  if (value.is_array() && value.size() <= size_max) return value;
  Fail(field, fmt::format("an array of at most {}", size_max));
  return Null();
}

const Json& JsonReader::Object(const char* field) {
  const Json& value = Find(field);
  if (value.is_object()) return value;
  Fail(field, "an object");
  return Null();
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
