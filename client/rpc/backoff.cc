#include "client/rpc/backoff.h"

#include <algorithm>
#include <random>

namespace kiln {

std::chrono::microseconds RandomDuration(std::chrono::microseconds low,
                                         std::chrono::microseconds high) {
  thread_local std::minstd_rand generator(std::random_device{}());
  return std::chrono::microseconds(
      std::uniform_int_distribution<int64_t>(low.count(), std::max(low, high).count())(generator));
}

std::optional<std::chrono::milliseconds> Backoff::Next(
    std::optional<std::chrono::milliseconds> hint) {
  if (attempts_ >= options_.attempts_max) return std::nullopt;
  if (hint.has_value()) hint = std::min<std::chrono::milliseconds>(*hint, std::chrono::seconds(30));
  const int doublings = std::min(attempts_ - 1, 20);
  ++attempts_;
  const auto ceiling = std::min<std::chrono::milliseconds>(
      options_.backoff_max, options_.backoff_first * (1 << doublings));
  const auto wait =
      std::chrono::duration_cast<std::chrono::milliseconds>(RandomDuration(ceiling / 2, ceiling));
  // On top of the hint: it is the earliest moment that makes sense, and everybody got the same one.
  return hint.has_value() ? *hint + wait : wait;
}

}  // namespace kiln
