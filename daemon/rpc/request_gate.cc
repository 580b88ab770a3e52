#include "daemon/rpc/request_gate.h"

#include <chrono>

namespace kiln {

absl::StatusOr<RequestGate::Pass> RequestGate::Enter() {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    return WithRetryAfter(Unavailable("the daemon is shutting down; try again when it is back"),
                          std::chrono::seconds(1));
  }
  ++inside_;
  return Pass(this, [](RequestGate* gate) { gate->Leave(); });
}

void RequestGate::Leave() {
  const std::lock_guard lock(mutex_);
  if (--inside_ == 0) empty_.notify_all();
}

void RequestGate::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool RequestGate::AwaitEmpty(SteadyTime deadline) {
  std::unique_lock lock(mutex_);
  return empty_.wait_until(lock, deadline, [&] { return inside_ == 0; });
}

}  // namespace kiln
