// Whether a call is repeated, and how long it waits before: random, doubling, bounded.
#pragma once

#include <chrono>
#include <optional>

#include "client/rpc/client.h"
#include "storage/base/status.h"

namespace kiln {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

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

// The daemon was gone, or it said that waiting helps.
[[nodiscard]] bool IsWorthRepeating(const absl::Status& status);

// Waits before the next attempt; false where repeating does not help, there have been enough
// attempts, or the deadline would pass meanwhile.
[[nodiscard]] bool WaitBeforeRepeating(const absl::Status& status, Backoff& backoff,
                                       const Deadline& deadline);

// UNAVAILABLE, of a daemon that accepts connections and does not answer. Not worth repeating: the
// call would hang again.
[[nodiscard]] absl::Status WedgedStatus();
[[nodiscard]] bool IsWedgedStatus(const absl::Status& status);

// Uniformly from [low, high].
[[nodiscard]] std::chrono::microseconds RandomDuration(std::chrono::microseconds low,
                                                       std::chrono::microseconds high);

}  // namespace kiln
