// How the whole daemon is, in words. Its numbers are metrics (storage/base/metrics.h).
#pragma once

#include <fmt/format.h>

#include <string>

#include "storage/base/metrics.h"

namespace kiln {

// The meaning stands in protos/kiln/admin/v1/admin_service.proto.
struct DaemonState {
  // A daemon that drains says so rather than that its store takes nothing.
  static DaemonState Of(bool is_draining, const std::string& why_degraded) {
    if (is_draining) return {"draining", ""};
    return {why_degraded.empty() ? "serving" : "degraded", why_degraded};
  }
  // For the service manager: "serving: 12 artifacts, 4 workers, 1 running, 0 queued".
  std::string Line() const {
    return fmt::format("{}: {} artifacts, {} workers, {} running, {} queued", state,
                       ReadMetric("artifacts"), ReadMetric("workers"), ReadMetric("running"),
                       ReadMetric("queued"));
  }

  std::string state;
  std::string reason;
};

}  // namespace kiln
