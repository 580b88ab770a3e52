#include "daemon/policy/recent_asks.h"

namespace kiln {
namespace {

constexpr std::chrono::seconds kRecent{1};

}  // namespace

void RecentAsks::Note(Priority priority) {
  if (!IsAhead(priority)) asked_at_.store(clock_.Now(), std::memory_order_relaxed);
}

bool RecentAsks::JobsAsk() const {
  return asked_at_.load(std::memory_order_relaxed) + kRecent > clock_.Now();
}

}  // namespace kiln
