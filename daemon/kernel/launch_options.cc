#include "daemon/kernel/launch_options.h"

#include <algorithm>

namespace kiln {
namespace {

using IntegerField = std::optional<int64_t> LaunchParameters::*;
using BoolField = std::optional<bool> LaunchParameters::*;

constexpr std::pair<std::string_view, IntegerField> kIntegerFields[] = {
    {"num_warps", &LaunchParameters::num_warps},
    {"num_stages", &LaunchParameters::num_stages},
    {"num_ctas", &LaunchParameters::num_ctas},
    {"maxnreg", &LaunchParameters::maxnreg},
};
constexpr std::pair<std::string_view, BoolField> kBoolFields[] = {
    {"launch_pdl", &LaunchParameters::launch_pdl},
    {"launch_cooperative_grid", &LaunchParameters::launch_cooperative_grid},
};
constexpr std::string_view kClusterDims = "cluster_dims";

absl::Status WrongType(std::string_view name, std::string_view expected, const OptionValue& value) {
  return InvalidArgument("launch parameter '{}' must be {}, got {}", name, expected,
                         ValueTypeName(value));
}

absl::Status SetClusterDims(LaunchParameters& launch, const OptionValue& value) {
  const auto* items = std::get_if<OptionTuple>(&value.value);
  if (items == nullptr) return WrongType(kClusterDims, "a tuple of three integers", value);
  std::array<int64_t, 3> dims{};
  if (items->size() != dims.size()) {
    return InvalidArgument("launch parameter 'cluster_dims' must have three values, got {}",
                           items->size());
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto* integer = std::get_if<int64_t>(&(*items)[i].value);
    if (integer == nullptr)
      return WrongType(kClusterDims, "a tuple of three integers", (*items)[i]);
    dims[i] = *integer;
  }
  launch.cluster_dims = dims;
  return absl::OkStatus();
}

}  // namespace

bool IsLaunchParameter(std::string_view name) {
  const auto is_named = [name](const auto& field) { return field.first == name; };
  return name == kClusterDims ||
         std::any_of(std::begin(kIntegerFields), std::end(kIntegerFields), is_named) ||
         std::any_of(std::begin(kBoolFields), std::end(kBoolFields), is_named);
}

Options LaunchOptions(const LaunchParameters& launch) {
  Options options;
  for (const auto& [name, field] : kIntegerFields) {
    if (launch.*field) options[std::string(name)] = {*(launch.*field)};
  }
  for (const auto& [name, field] : kBoolFields) {
    if (launch.*field) options[std::string(name)] = {*(launch.*field)};
  }
  if (launch.cluster_dims) {
    OptionTuple dims(launch.cluster_dims->size());
    for (size_t i = 0; i < dims.size(); ++i) dims[i].value = (*launch.cluster_dims)[i];
    options[std::string(kClusterDims)].value = std::move(dims);
  }
  return options;
}

absl::Status SetLaunchParameter(LaunchParameters& launch, std::string_view name,
                                const OptionValue& value) {
  for (const auto& [field_name, field] : kIntegerFields) {
    if (field_name != name) continue;
    const auto* integer = std::get_if<int64_t>(&value.value);
    if (integer == nullptr) return WrongType(name, "an integer", value);
    launch.*field = *integer;
  }
  for (const auto& [field_name, field] : kBoolFields) {
    if (field_name != name) continue;
    const auto* boolean = std::get_if<bool>(&value.value);
    if (boolean == nullptr) return WrongType(name, "a boolean", value);
    launch.*field = *boolean;
  }
  return name == kClusterDims ? SetClusterDims(launch, value) : absl::OkStatus();
}

std::string_view ValueTypeName(const OptionValue& value) {
  static constexpr std::string_view kNames[] = {"a boolean", "an integer", "a number", "a string",
                                                "a tuple"};
  return kNames[value.value.index()];
}

}  // namespace kiln
