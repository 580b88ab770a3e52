#include "storage/base/call_context.h"

#include <utility>

namespace kiln {

Cancellation::Registration Cancellation::OnCancel(std::function<void()> callback) const {
  return std::make_unique<Registration::element_type>(
      source_.get_token(), [callback = std::move(callback)]() mutable {
        // Moved out: the one call releases the captures, and may destroy the registration.
        const auto run = std::exchange(callback, nullptr);
        run();
      });
}

absl::Status StillWanted(const CallContext& context, const Clock& clock) {
  if (context.cancellation.IsCancelled()) return Cancelled("the caller went away");
  if (context.deadline && clock.Now() >= *context.deadline) {
    return DeadlineExceeded("the caller's deadline has passed");
  }
  return absl::OkStatus();
}

}  // namespace kiln
