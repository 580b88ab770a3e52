// Lets requests in until the daemon drains, and knows when the last one has left.
#pragma once

#include <cstddef>
#include <memory>

#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// Thread-safe. Only AwaitEmpty blocks.
class RequestGate {
 public:
  // Who holds a copy is inside. The gate must outlive it.
  using Pass = std::shared_ptr<RequestGate>;

  // UNAVAILABLE with a retry hint once the gate is closed.
  absl::StatusOr<Pass> Enter();

  // Nobody enters any more.
  void Close();
  // True: everybody left in time.
  bool AwaitEmpty(SteadyTime deadline);

 private:
  void Leave();

  Mutex mutex_;
  CondVar empty_;
  size_t inside_ KILN_GUARDED_BY(mutex_) = 0;
  bool closed_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
