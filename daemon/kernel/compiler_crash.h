// Crashes that the source is suspected of.
#pragma once

#include "storage/base/status.h"

namespace kiln {

// The same status, marked: compiling this source cost each worker that tried its life. Other errors
// of the infrastructure say nothing of the source.
[[nodiscard]] absl::Status MarkCompilerCrash(absl::Status status);
[[nodiscard]] bool IsCompilerCrash(const absl::Status& status);

}  // namespace kiln
