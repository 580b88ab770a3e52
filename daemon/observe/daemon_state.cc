#include "daemon/observe/daemon_state.h"

#include <fmt/format.h>

#include "storage/base/metrics.h"

namespace kiln {

void DaemonState::SetState(bool is_draining, const std::string& why_degraded) {
  state = is_draining ? "draining" : why_degraded.empty() ? "serving" : "degraded";
  reason = is_draining ? "" : why_degraded;
}

std::string DaemonState::Line() const {
  return fmt::format("{}: {} artifacts, {} workers, {} running, {} queued", state,
                     ReadMetric("artifacts"), ReadMetric("workers"), ReadMetric("running"),
                     ReadMetric("queued"));
}

}  // namespace kiln
