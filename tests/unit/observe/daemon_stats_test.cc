#include "daemon/observe/daemon_stats.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(DaemonStatsTest, StatusLineSaysWhatAnOperatorLooksForFirst) {
  DaemonStats stats;
  EXPECT_EQ(StatusLine(stats), "serving: 0 artifacts, 0 workers, 0 running, 0 queued");
  stats.state = "degraded";
  stats.artifacts = 12;
  stats.workers = 4;
  stats.admission.running = 3;
  stats.admission.queued = 2;
  EXPECT_EQ(StatusLine(stats), "degraded: 12 artifacts, 4 workers, 3 running, 2 queued");
}

}  // namespace
}  // namespace kiln
