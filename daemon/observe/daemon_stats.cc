#include "daemon/observe/daemon_stats.h"

#include <fmt/format.h>

namespace kiln {

std::string StatusLine(const DaemonStats& stats) {
  return fmt::format("{}: {} artifacts, {} workers, {} running, {} queued", stats.state,
                     stats.artifacts, stats.workers, stats.admission.running,
                     stats.admission.queued);
}

}  // namespace kiln
