// How long to wait before a call is repeated: random, doubling, bounded.
#pragma once

#include <chrono>
#include <optional>

#include "client/rpc/client.h"

namespace kiln {

// The waits of one call. They are random: thousands of clients lose the daemon at the same moment
// and must not return at the same moment. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(const RetryOptions& options) : options_(options) {}

  // The wait before the next attempt, at least `hint`; nothing when there have been enough.
  [[nodiscard]] std::optional<std::chrono::milliseconds> Next(
      std::optional<std::chrono::milliseconds> hint);

  // After a success: the next failure is a new one.
  void Reset() { attempts_ = 1; }

 private:
  RetryOptions options_;
  int attempts_ = 1;
};

// Uniformly from [low, high].
[[nodiscard]] std::chrono::microseconds RandomDuration(std::chrono::microseconds low,
                                                       std::chrono::microseconds high);

}  // namespace kiln
