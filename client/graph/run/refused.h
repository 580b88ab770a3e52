// Errors of a bound plan's callers.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "absl/status/status.h"

namespace kiln::graph {

template <typename... Arguments>
absl::Status Refused(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace kiln::graph
