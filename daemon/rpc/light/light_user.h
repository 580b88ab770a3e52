// What the light connections of one user share.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>

#include "daemon/rpc/byte_budget.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// epoll_ctl. What happens on the descriptor brings `number`.
inline bool Watch(const UniqueFd& epoll, int operation, const UniqueFd& fd, uint32_t events,
                  uint64_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  return ::epoll_ctl(epoll.get(), operation, fd.get(), &event) == 0;
}

struct LightUser {
  UniqueFd epoll;                        // of the user's sockets
  std::shared_ptr<ByteBudget> requests;  // under way
  std::shared_ptr<ByteBudget> answers;   // not read
};

}  // namespace kiln
