// Repeats a call on a new connection where that can help.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "client/rpc/backoff.h"
#include "client/rpc/client.h"
#include "client/rpc/reconnecting_stub.h"
#include "storage/base/status.h"

namespace kiln {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

// The daemon was gone, or it said that waiting helps.
[[nodiscard]] bool IsWorthRepeating(const absl::Status& status);

// Waits before the next attempt; false where there is none or the deadline would pass meanwhile.
[[nodiscard]] bool WaitBeforeRepeating(const absl::Status& status, Backoff& backoff,
                                       const Deadline& deadline);

// `attempt` is given a stub and returns the call's status. Blocks.
template <typename Service, typename Attempt>
[[nodiscard]] absl::Status CallRepeatedly(ReconnectingStub<Service>& stubs,
                                          const RetryOptions& options, const Deadline& deadline,
                                          const Attempt& attempt) {
  Backoff backoff(options);
  while (true) {
    const auto stub = stubs.Get();
    const absl::Status status = stub.ok() ? attempt(**stub) : stub.status();
    if (stub.ok() && status.code() == absl::StatusCode::kUnavailable) stubs.Drop(*stub);
    if (!IsWorthRepeating(status) || !WaitBeforeRepeating(status, backoff, deadline)) return status;
  }
}

}  // namespace kiln
