// A daemon that is there and does not answer.
#pragma once

#include "storage/base/status.h"

namespace kiln {

// UNAVAILABLE, and marked so that nobody repeats the call: it would hang again.
[[nodiscard]] absl::Status WedgedStatus();
[[nodiscard]] bool IsWedgedStatus(const absl::Status& status);

}  // namespace kiln
