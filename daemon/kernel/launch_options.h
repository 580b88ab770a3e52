// Launch parameters seen as options: the toolchain declares both alike, requests may spell them
// either way, and the key encodes both as a map from names to values.
#pragma once

#include <string_view>

#include "daemon/kernel/kernel.h"

namespace kiln {

// Calls `visit(name, member)` for each launch parameter. `Launch` is LaunchParameters, const or
// not.
template <typename Launch, typename Visit>
void ForEachLaunchParameter(Launch& launch, Visit&& visit) {
  visit("num_warps", launch.num_warps);
  visit("num_stages", launch.num_stages);
  visit("num_ctas", launch.num_ctas);
  visit("maxnreg", launch.maxnreg);
  visit("cluster_dims", launch.cluster_dims);
  visit("launch_pdl", launch.launch_pdl);
  visit("launch_cooperative_grid", launch.launch_cooperative_grid);
}

// True for the names of LaunchParameters' fields.
bool IsLaunchParameter(std::string_view name);

// The launch parameters that are set, by name. cluster_dims is a tuple of three integers.
Options LaunchOptions(const LaunchParameters& launch);

// Sets one field. INVALID_ARGUMENT where the value has the wrong type. REQUIRES:
// IsLaunchParameter(name).
absl::Status SetLaunchParameter(LaunchParameters& launch, std::string_view name,
                                const OptionValue& value);

// With its article, for messages: "a boolean", "an integer", "a number", "a string", "a tuple".
std::string_view ValueTypeName(const OptionValue& value);

}  // namespace kiln
