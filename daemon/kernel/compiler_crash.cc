#include "daemon/kernel/compiler_crash.h"

#include <absl/strings/cord.h>

namespace kiln {
namespace {
constexpr char kCrashPayload[] = "kiln/compiler-crash";
}  // namespace

absl::Status MarkCompilerCrash(absl::Status status) {
  status.SetPayload(kCrashPayload, absl::Cord("1"));
  return status;
}

bool IsCompilerCrash(const absl::Status& status) {
  return status.GetPayload(kCrashPayload).has_value();
}

}  // namespace kiln
