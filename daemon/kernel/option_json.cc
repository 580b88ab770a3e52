#include "daemon/kernel/option_json.h"

#include <nlohmann/json.hpp>

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::StatusOr<OptionValue> ReadOption(const nlohmann::json& json, size_t depth) {
  if (json.is_boolean()) return OptionValue{json.get<bool>()};
  if (json.is_number_float()) return OptionValue{json.get<double>()};
  if (json.is_string()) return OptionValue{json.get<std::string>()};
  if (json.is_array() && depth > 0) {
    OptionTuple tuple;
    for (const auto& item : json) {
      KILN_ASSIGN_OR_RETURN(OptionValue value, ReadOption(item, depth - 1));
      tuple.push_back(std::move(value));
    }
    return OptionValue{std::move(tuple)};
  }
  const bool fits = json.is_number_integer() &&
                    !(json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX});
  if (fits) return OptionValue{json.get<int64_t>()};
  return InvalidArgument("it is not a value that an option can have");
}

nlohmann::json HeldToJson(const OptionTuple& tuple) {
  nlohmann::json array = nlohmann::json::array();
  for (const OptionValue& item : tuple) array.push_back(OptionToJson(item));
  return array;
}
template <typename T>
nlohmann::json HeldToJson(const T& value) {
  return value;
}

}  // namespace

nlohmann::json OptionToJson(const OptionValue& option) {
  return std::visit([](const auto& value) { return HeldToJson(value); }, option.value);
}

absl::StatusOr<OptionValue> OptionFromJson(const nlohmann::json& json) {
  return ReadOption(json, limits::kOptionDepthMax);
}

}  // namespace kiln
