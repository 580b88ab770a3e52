// The status of a daemon that accepts connections and does not answer.
#pragma once

#include "storage/base/status.h"

namespace kiln {

// UNAVAILABLE with a mark that keeps the call from being repeated: it would hang again.
[[nodiscard]] absl::Status WedgedStatus();
[[nodiscard]] bool IsWedgedStatus(const absl::Status& status);

}  // namespace kiln
