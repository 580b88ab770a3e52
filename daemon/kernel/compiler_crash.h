// Crashes that the source is suspected of.
#pragma once

#include "storage/base/status.h"

namespace kiln {

// Marks `status` as a crash: each worker that tried to compile this source died. Other errors of
// the infrastructure say nothing of the source.
[[nodiscard]] absl::Status MarkCompilerCrash(absl::Status status);
[[nodiscard]] bool IsCompilerCrash(const absl::Status& status);

}  // namespace kiln
