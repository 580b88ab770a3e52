// Option values in JSON, as workers and toolchains write and read them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/kernel/kernel.h"
#include "storage/base/status.h"

namespace kiln {

// A tuple is an array.
nlohmann::json OptionToJson(const OptionValue& option);

// An array is a tuple. INVALID_ARGUMENT for what is no value of an option: null, an object, a
// number beyond 64 bits, tuples nested too deep.
absl::StatusOr<OptionValue> OptionFromJson(const nlohmann::json& json);

}  // namespace kiln
