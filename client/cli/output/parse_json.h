// Reads JSON of users. Refuses more than nlohmann's own reader does, and names the place of the
// mistake.
#pragma once

#include <string_view>

#include "client/cli/output/json.h"
#include "storage/base/status.h"

namespace kiln::cli {

// INVALID_ARGUMENT: not JSON, a name twice in one object, or nested deeper than any request.
// OUT_OF_RANGE: a number that fits neither 64 bits nor a double; it would be rounded.
[[nodiscard]] absl::StatusOr<Json> ParseJson(std::string_view text);

}  // namespace kiln::cli
