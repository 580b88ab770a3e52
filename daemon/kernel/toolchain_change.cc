#include "daemon/kernel/toolchain_change.h"

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::Status Refusal(const Toolchain& toolchain, const absl::Status& why) {
  return WithRetryAfter(
      Unavailable(
          "{} ({}) was changed on disk while the daemon served it ({}), so what it gives counts "
          "for nothing. The daemon reads it again: ask again, and by its name and version you get "
          "what it is now, if it works",
          toolchain.Name(), toolchain.fingerprint.ShortHex(), Message(why)),
      limits::kToolchainChangeRetry);
}

}  // namespace

ToolchainCheck CheckUnchanged(const Toolchain& toolchain, const OnToolchainChange& on_change) {
  const absl::Status same = toolchain.seal == nullptr ? absl::OkStatus() : toolchain.seal->Check();
  if (same.ok()) return {};
  if (!absl::IsFailedPrecondition(same)) {
    return {
        Unavailable("whether {} is as it was cannot be told: {}", toolchain.Name(), Message(same))};
  }
  on_change(toolchain, same);
  return {Refusal(toolchain, same), /*is_changed=*/true};
}

}  // namespace kiln
