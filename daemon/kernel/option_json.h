// Option values in JSON, as workers and toolchains write and read them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/kernel/kernel.h"
#include "storage/base/status.h"

namespace kiln {

// An array is a tuple; what is no value that an option can have (null, an object, a number beyond
// 64 bits, tuples too deep in each other) is an INVALID_ARGUMENT.
absl::StatusOr<OptionValue> OptionFromJson(const nlohmann::json& json);

}  // namespace kiln
