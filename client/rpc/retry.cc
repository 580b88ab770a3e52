#include "client/rpc/retry.h"

#include <thread>

#include "client/rpc/wedged.h"

namespace kiln {

bool IsWorthRepeating(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kUnavailable) return !IsWedgedStatus(status);
  return status.code() == absl::StatusCode::kResourceExhausted && RetryAfterOf(status).has_value();
}

bool WaitBeforeRepeating(const absl::Status& status, Backoff& backoff, const Deadline& deadline) {
  const auto wait = backoff.Next(RetryAfterOf(status));
  if (!wait.has_value()) return false;
  if (deadline.has_value() && std::chrono::steady_clock::now() + *wait >= *deadline) return false;
  std::this_thread::sleep_for(*wait);
  return true;
}

}  // namespace kiln
