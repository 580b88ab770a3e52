#include "client/rpc/retry.h"

#include <absl/strings/cord.h>

#include <algorithm>
#include <random>
#include <thread>

namespace kiln {
namespace {

constexpr char kWedgedUrl[] = "kiln.client/wedged";

}  // namespace

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
  // The hint is the earliest moment that makes sense, and every client got the same hint.
  return hint.has_value() ? *hint + wait : wait;
}

bool IsWorthRepeating(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kUnavailable) return !IsWedgedStatus(status);
  return status.code() == absl::StatusCode::kResourceExhausted && RetryAfterOf(status).has_value();
}

bool WaitBeforeRepeating(const absl::Status& status, Backoff& backoff, const Deadline& deadline) {
  if (!IsWorthRepeating(status)) return false;
  const auto wait = backoff.Next(RetryAfterOf(status));
  if (!wait.has_value()) return false;
  if (deadline.has_value() && std::chrono::steady_clock::now() + *wait >= *deadline) return false;
  std::this_thread::sleep_for(*wait);
  return true;
}

absl::Status WedgedStatus() {
  absl::Status status = Unavailable(
      "the daemon accepts connections but does not answer: it is stopped, stuck or starved");
  status.SetPayload(kWedgedUrl, absl::Cord("1"));
  return status;
}

bool IsWedgedStatus(const absl::Status& status) {
  return status.GetPayload(kWedgedUrl).has_value();
}

std::chrono::microseconds RandomDuration(std::chrono::microseconds low,
                                         std::chrono::microseconds high) {
  thread_local std::minstd_rand generator(std::random_device{}());
  return std::chrono::microseconds(
      std::uniform_int_distribution<int64_t>(low.count(), std::max(low, high).count())(generator));
}

}  // namespace kiln
