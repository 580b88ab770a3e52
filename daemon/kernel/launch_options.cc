#include "daemon/kernel/launch_options.h"

#include <cassert>

namespace kiln {
namespace {

using Dims = std::array<int64_t, 3>;

OptionValue ToOption(int64_t value) { return {value}; }
OptionValue ToOption(bool value) { return {value}; }
OptionValue ToOption(const Dims& dims) {
  OptionTuple tuple;
  for (const int64_t dim : dims) tuple.push_back({dim});
  return {std::move(tuple)};
}

absl::Status WrongType(std::string_view name, std::string_view expected, const OptionValue& value) {
  return InvalidArgument("launch parameter '{}' must be {}, got {}", name, expected,
                         ValueTypeName(value));
}

template <typename T>
absl::Status SetField(std::string_view name, const OptionValue& value, std::optional<T>& field) {
  const T* held = std::get_if<T>(&value.value);
  if (held == nullptr) {
    return WrongType(name, std::is_same_v<T, bool> ? "a boolean" : "an integer", value);
  }
  field = *held;
  return absl::OkStatus();
}

absl::Status SetField(std::string_view name, const OptionValue& value, std::optional<Dims>& field) {
  constexpr std::string_view kExpected = "a tuple of three integers";
  const auto* items = std::get_if<OptionTuple>(&value.value);
  if (items == nullptr) return WrongType(name, kExpected, value);
  Dims dims{};
  if (items->size() != dims.size()) {
    return InvalidArgument("launch parameter '{}' must have three values, got {}", name,
                           items->size());
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto* integer = std::get_if<int64_t>(&(*items)[i].value);
    if (integer == nullptr) return WrongType(name, kExpected, (*items)[i]);
    dims[i] = *integer;
  }
  field = dims;
  return absl::OkStatus();
}

}  // namespace

bool IsLaunchParameter(std::string_view name) {
  static constexpr LaunchParameters kNone;
  bool found = false;
  ForEachLaunchParameter(
      kNone, [&](std::string_view each, const auto& /*field*/) { found = found || each == name; });
  return found;
}

Options LaunchOptions(const LaunchParameters& launch) {
  Options options;
  ForEachLaunchParameter(launch, [&options](const char* name, const auto& field) {
    if (field) options[name] = ToOption(*field);
  });
  return options;
}

absl::Status SetLaunchParameter(LaunchParameters& launch, std::string_view name,
                                const OptionValue& value) {
  assert(IsLaunchParameter(name));
  absl::Status status;
  ForEachLaunchParameter(launch, [&](std::string_view each, auto& field) {
    if (each == name) status = SetField(name, value, field);
  });
  return status;
}

std::string_view ValueTypeName(const OptionValue& value) {
  static constexpr std::string_view kNames[] = {"a boolean", "an integer", "a number", "a string",
                                                "a tuple"};
  return kNames[value.value.index()];
}

}  // namespace kiln
