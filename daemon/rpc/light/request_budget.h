// Memory for the requests of one user's light connections.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "storage/base/limits.h"
#include "storage/base/status.h"

namespace kiln {

// Thread-safe; does not block.
class RequestBudget : public std::enable_shared_from_this<RequestBudget> {
 public:
  // Gives the bytes back when its last copy goes.
  using Share = std::shared_ptr<void>;

  explicit RequestBudget(size_t bytes_max = limits::kPrincipalBufferBytesMax)
      : bytes_max_(bytes_max) {}

  // RESOURCE_EXHAUSTED with a retry hint where too much is taken.
  absl::StatusOr<Share> Take(size_t bytes) {
    Share share(nullptr, [self = shared_from_this(), bytes](void*) { self->bytes_ -= bytes; });
    if (bytes_.fetch_add(bytes) + bytes <= bytes_max_) return share;
    return WithRetryAfter(
        ResourceExhausted("the requests of this user that are under way have {} bytes", bytes_max_),
        std::chrono::milliseconds(100));
  }

 private:
  const size_t bytes_max_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace kiln
