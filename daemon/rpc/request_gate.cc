#include "daemon/rpc/request_gate.h"

#include <cassert>
#include <chrono>

namespace kiln {

RequestGate::RequestGate()
    : own_(this,
           [](RequestGate* gate) {
             const MutexLock lock(gate->mutex_);
             gate->is_empty_ = true;
             gate->empty_.NotifyAll();
           }),
      passes_(own_) {}

absl::StatusOr<RequestGate::Pass> RequestGate::Enter() const {
  if (!is_closed_) {
    if (Pass pass = passes_.lock()) return pass;  // null: the last one left just now
  }
  return WithRetryAfter(Unavailable("the daemon is shutting down; try again when it is back"),
                        std::chrono::seconds(1));
}

void RequestGate::Close() {
  is_closed_ = true;
  Pass own;  // goes without the lock
  const MutexLock lock(mutex_);
  own.swap(own_);
}

bool RequestGate::AwaitEmpty(SteadyTime deadline) {
  assert(is_closed_);
  const MutexLock lock(mutex_);
  return empty_.WaitUntil(mutex_, deadline, [this]() KILN_REQUIRES(mutex_) { return is_empty_; });
}

}  // namespace kiln
