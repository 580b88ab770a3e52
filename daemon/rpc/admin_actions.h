// What operators may do to the running daemon, behind the administration service. The assembly
// fills it in.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/observe/daemon_stats.h"
#include "storage/base/call_context.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

struct VerifyProgress {
  uint64_t checked = 0;
  uint64_t checked_bytes = 0;
  // Found since the last report.
  std::vector<Digest> quarantined;
};

// Thread-safe, each of them. May block for long, but for `drain`.
struct AdminActions {
  std::function<DaemonStats()> stats;
  // Evicts the least valuable until the store occupies at most this much; returns what was evicted,
  // in number.
  std::function<absl::StatusOr<uint64_t>(const CallContext&, uint64_t target_bytes)> evict_to;
  // Reads everything. Reports as it goes, on the same thread; stops early when the context is
  // cancelled.
  std::function<absl::Status(const CallContext&,
                             const std::function<void(const VerifyProgress&)>& report)>
      verify;
  // As on SIGTERM. Returns at once.
  std::function<void()> drain;
};

}  // namespace kiln
