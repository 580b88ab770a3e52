// Compiler options from JSON and from the command line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/output/json.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Keeps the type: booleans, integers, floats and strings stay what they are, an array is a tuple.
// INVALID_ARGUMENT for an object, a null inside a tuple, an integer beyond 64 bits, or tuples
// nested deeper than the daemon takes.
[[nodiscard]] absl::StatusOr<v1::OptionValue> ToOptionValue(const Json& json);

// An object of options; null means absent.
[[nodiscard]] absl::Status SetOptions(const Json& json, v1::CompileRequest& request);

// "name=value" of the command line: a JSON scalar or array where the value reads as one, otherwise
// a string. Each name once.
[[nodiscard]] absl::Status SetOptions(const std::vector<std::string>& assignments,
                                      v1::CompileRequest& request);

}  // namespace kiln::cli
