// Bounds of the bytes that the daemon holds for its users.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "storage/base/status.h"

namespace kiln {

// Bytes that all users hold together.
struct SharedBytes {
  size_t bytes_max;
  std::atomic<size_t> bytes{0};
};

// One user's share of SharedBytes: never more than is left. One user alone has at most half, two
// that grow together a third each. Where nobody holds any, one share may be larger. Made by
// std::make_shared. Thread-safe; does not block.
class ByteBudget : public std::enable_shared_from_this<ByteBudget> {
 public:
  struct Return {
    std::shared_ptr<ByteBudget> keeps_alive;
    size_t bytes = 0;
    void operator()(ByteBudget* budget) const {
      budget->bytes_ -= bytes;
      budget->all_->bytes -= bytes;
    }
  };
  // Gives the bytes back at its end, which may come after everybody else's.
  using Share = std::unique_ptr<ByteBudget, Return>;

  explicit ByteBudget(std::shared_ptr<SharedBytes> all) : all_(std::move(all)) {}

  // RESOURCE_EXHAUSTED with a retry hint where too little is left.
  absl::StatusOr<Share> Take(size_t bytes) {
    Share share(this, {shared_from_this(), bytes});
    const size_t mine = bytes_.fetch_add(bytes) + bytes;
    const size_t all = all_->bytes.fetch_add(bytes) + bytes;
    if (mine + all <= all_->bytes_max || all == bytes) return share;
    return WithRetryAfter(
        ResourceExhausted("the daemon holds {} bytes for this user, {} for all; a user may have "
                          "what is left of {}",
                          mine - bytes, all - bytes, all_->bytes_max),
        std::chrono::milliseconds(100));
  }

 private:
  const std::shared_ptr<SharedBytes> all_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace kiln
