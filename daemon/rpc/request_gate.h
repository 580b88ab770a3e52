// Lets requests in until the daemon drains, and knows when the last one has left.
#pragma once

#include <atomic>
#include <memory>

#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// Every request passes here, so Enter takes no lock. Thread-safe. Only AwaitEmpty blocks.
class RequestGate {
 public:
  // A request is inside while it holds a copy. The gate must outlive it.
  using Pass = std::shared_ptr<RequestGate>;

  RequestGate();

  // UNAVAILABLE with a retry hint once the gate is closed.
  absl::StatusOr<Pass> Enter() const;

  // From now on Enter fails.
  void Close();
  // True: every pass is gone in time. REQUIRES: the gate is closed.
  bool AwaitEmpty(SteadyTime deadline);

 private:
  std::atomic<bool> is_closed_ = false;
  Mutex mutex_;
  CondVar empty_;
  bool is_empty_ KILN_GUARDED_BY(mutex_) = false;
  Pass own_ KILN_GUARDED_BY(mutex_);         // the first of all passes, until the gate is closed
  const std::weak_ptr<RequestGate> passes_;  // shares one count with all
};

}  // namespace kiln
