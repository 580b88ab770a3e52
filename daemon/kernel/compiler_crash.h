// Crashes that the source is suspected of.
#pragma once

#include <absl/strings/cord.h>

#include "storage/base/status.h"

namespace kiln {

inline constexpr char kCompilerCrashUrl[] = "kiln/compiler-crash";

// Marks `status` as a crash: each worker that tried to compile this source died. Other errors of
// the infrastructure say nothing of the source.
[[nodiscard]] inline absl::Status MarkCompilerCrash(absl::Status status) {
  status.SetPayload(kCompilerCrashUrl, absl::Cord("1"));
  return status;
}
[[nodiscard]] inline bool IsCompilerCrash(const absl::Status& status) {
  return status.GetPayload(kCompilerCrashUrl).has_value();
}

}  // namespace kiln
