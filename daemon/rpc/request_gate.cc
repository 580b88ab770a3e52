#include "daemon/rpc/request_gate.h"

#include <chrono>

namespace kiln {

absl::StatusOr<RequestGate::Pass> RequestGate::Enter() {
  const MutexLock lock(mutex_);
  if (closed_) {
    return WithRetryAfter(Unavailable("the daemon is shutting down; try again when it is back"),
                          std::chrono::seconds(1));
  }
  ++inside_;
  return Pass(this, [](RequestGate* gate) { gate->Leave(); });
}

void RequestGate::Leave() {
  const MutexLock lock(mutex_);
  if (--inside_ == 0) empty_.NotifyAll();
}

void RequestGate::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

bool RequestGate::AwaitEmpty(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return empty_.WaitUntil(mutex_, deadline,
                          [this]() KILN_REQUIRES(mutex_) { return inside_ == 0; });
}

}  // namespace kiln
