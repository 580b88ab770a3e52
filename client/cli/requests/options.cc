#include "client/cli/requests/options.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "client/cli/output/parse_json.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

absl::Status Convert(const Json& json, size_t depth, v1::OptionValue& value);

absl::Status ConvertInteger(const Json& json, v1::OptionValue& value) {
  KILN_ASSIGN_OR_RETURN(const int64_t integer, ToInt64(json));
  value.set_int_value(integer);
  return absl::OkStatus();
}

absl::Status ConvertTuple(const Json& json, size_t depth, v1::OptionValue& value) {
  if (depth >= limits::kOptionDepthMax) {
    return InvalidArgument("tuples are nested deeper than {}", limits::kOptionDepthMax);
  }
  value.mutable_tuple_value();
  for (size_t i = 0; i < json.size(); ++i) {
    v1::OptionValue& item = *value.mutable_tuple_value()->add_items();
    KILN_RETURN_IF_ERROR(Annotate(Convert(json[i], depth + 1, item), fmt::format("item {}", i)));
  }
  return absl::OkStatus();
}

absl::Status Convert(const Json& json, size_t depth, v1::OptionValue& value) {
  switch (json.type()) {
    case Json::value_t::boolean:
      value.set_bool_value(json.get<bool>());
      return absl::OkStatus();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return ConvertInteger(json, value);
    case Json::value_t::number_float:
      value.set_double_value(json.get<double>());
      return absl::OkStatus();
    case Json::value_t::string:
      value.set_string_value(json.get_ref<const std::string&>());
      return absl::OkStatus();
    case Json::value_t::array:
      return ConvertTuple(json, depth, value);
    default:
      return InvalidArgument(
          "{} is not an option value: give a boolean, a number, a string or an array",
          json.type_name());
  }
}

// What the shell can hand over unquoted: 8, 1e-5, true, [1,2,3], fp16.
absl::StatusOr<Json> ReadValue(std::string_view text) {
  absl::StatusOr<Json> parsed = ParseJson(text);
  if (absl::IsOutOfRange(parsed.status())) return InvalidArgument("{}", Message(parsed.status()));
  if (!parsed.ok() || parsed->is_object()) return Json(text);
  return parsed;
}

absl::Status SetOption(const std::string& name, const Json& json, v1::CompileRequest& request) {
  if (json.is_null()) return absl::OkStatus();
  auto value = ToOptionValue(json);
  if (!value.ok()) return Annotate(value.status(), fmt::format("option '{}'", name));
  (*request.mutable_options())[name] = *std::move(value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::OptionValue> ToOptionValue(const Json& json) {
  v1::OptionValue value;
  KILN_RETURN_IF_ERROR(Convert(json, 0, value));
  return value;
}

absl::Status SetOptions(const Json& json, v1::CompileRequest& request) {
  if (!json.is_object()) {
    return InvalidArgument("'options' is {} where an object was expected", json.type_name());
  }
  for (const auto& [name, value] : json.items()) {
    KILN_RETURN_IF_ERROR(SetOption(name, value, request));
  }
  return absl::OkStatus();
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
    if (!seen.insert(name).second) return InvalidArgument("--option {} is given twice", name);
    const auto value = ReadValue(assignment.substr(equals + 1));
    if (!value.ok()) return Annotate(value.status(), fmt::format("option '{}'", name));
    KILN_RETURN_IF_ERROR(SetOption(name, *value, request));
  }
  return absl::OkStatus();
}

}  // namespace kiln::cli
