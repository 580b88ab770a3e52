// Launch parameters seen as options: the toolchain declares both alike, requests may spell them
// either way, and the key encodes both as a map from names to values.
#pragma once

#include <string_view>

#include "daemon/kernel/kernel.h"

namespace kiln {

// True for the names of LaunchParameters' fields.
bool IsLaunchParameter(std::string_view name);

// Those that are set, by name. cluster_dims is a tuple of three integers.
Options LaunchOptions(const LaunchParameters& launch);

// Sets one field. INVALID_ARGUMENT where the value has the wrong type. REQUIRES:
// IsLaunchParameter(name).
absl::Status SetLaunchParameter(LaunchParameters& launch, std::string_view name,
                                const OptionValue& value);

// With its article, for messages: "a boolean", "an integer", "a number", "a string", "a tuple".
std::string_view ValueTypeName(const OptionValue& value);

}  // namespace kiln
