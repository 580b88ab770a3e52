// JSON that a person or a program of theirs wrote: what nlohmann's own reader lets pass is refused
// here, and what is wrong is named by its place.
#pragma once

#include <string_view>

#include "client/cli/output/json.h"
#include "storage/base/status.h"

namespace kiln::cli {

// INVALID_ARGUMENT where this is not JSON, says a name twice, or is nested deeper than any request;
// OUT_OF_RANGE where a number in it fits neither 64 bits nor a double: it would be rounded.
[[nodiscard]] absl::StatusOr<Json> ParseJson(std::string_view text);

}  // namespace kiln::cli
