// What the light connections of one user share.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>

#include "storage/base/limits.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// Thread-safe; does not block.
class ByteBudget {
 public:
  struct Return {
    size_t bytes = 0;
    void operator()(ByteBudget* budget) const { budget->bytes_ -= bytes; }
  };
  // Gives the bytes back at its end. The budget must outlive it.
  using Share = std::unique_ptr<ByteBudget, Return>;

  // `what` takes the bytes, in words.
  ByteBudget(std::string_view what, size_t bytes_max) : what_(what), bytes_max_(bytes_max) {}

  // RESOURCE_EXHAUSTED with a retry hint where too much is taken.
  absl::StatusOr<Share> Take(size_t bytes) {
    Share share(this, {bytes});
    if (bytes_.fetch_add(bytes) + bytes <= bytes_max_) return share;
    return WithRetryAfter(ResourceExhausted("{} have {} bytes", what_, bytes_max_),
                          std::chrono::milliseconds(100));
  }

 private:
  const std::string_view what_;
  const size_t bytes_max_;
  std::atomic<size_t> bytes_{0};
};

// epoll_ctl. What happens on the descriptor brings `number`.
inline bool Watch(const UniqueFd& epoll, int operation, const UniqueFd& fd, uint32_t events,
                  uint64_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  return ::epoll_ctl(epoll.get(), operation, fd.get(), &event) == 0;
}

struct LightUser {
  explicit LightUser(size_t unread_bytes_max)
      : answers("the answers that this user has not read", unread_bytes_max) {}

  UniqueFd epoll;  // of the user's sockets
  ByteBudget requests{"the requests of this user that are under way",
                      limits::kPrincipalBufferBytesMax};
  ByteBudget answers;
};

}  // namespace kiln
