#include "daemon/observe/daemon_state.h"

#include <fmt/format.h>

#include "storage/base/metrics.h"

namespace kiln {

DaemonState DaemonState::Of(bool is_draining, const std::string& why_degraded) {
  if (is_draining) return {"draining", ""};
  return {why_degraded.empty() ? "serving" : "degraded", why_degraded};
}

std::string DaemonState::Line() const {
  return fmt::format("{}: {} artifacts, {} workers, {} running, {} queued", state,
                     ReadMetric("artifacts"), ReadMetric("workers"), ReadMetric("running"),
                     ReadMetric("queued"));
}

}  // namespace kiln
