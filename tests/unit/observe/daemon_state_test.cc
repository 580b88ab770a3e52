#include "daemon/observe/daemon_state.h"

#include <gtest/gtest.h>

#include "storage/base/metrics.h"

namespace kiln {
namespace {

TEST(DaemonStateTest, LineSaysWhatAnOperatorLooksForFirst) {
  EXPECT_EQ(DaemonState::Of(false, "").Line(),
            "serving: 0 artifacts, 0 workers, 0 running, 0 queued");
  const DaemonState state = DaemonState::Of(/*is_draining=*/false, "the disk is full");
  const Gauge artifacts("artifacts", "", [] { return 12; });
  const Gauge workers("workers", "", [] { return 4; });
  const Gauge running("running", "", [] { return 3; });
  const Gauge first("queued", "", [] { return 1; }, {{"priority", "warm"}});
  const Gauge second("queued", "", [] { return 1; }, {{"priority", "autotune"}});
  EXPECT_EQ(state.Line(), "degraded: 12 artifacts, 4 workers, 3 running, 2 queued");
}

TEST(DaemonStateTest, DegradedStoreIsToldUntilTheDaemonDrains) {
  DaemonState state = DaemonState::Of(/*is_draining=*/false, "the disk is full");
  EXPECT_EQ(state.state, "degraded");
  EXPECT_EQ(state.reason, "the disk is full");
  state = DaemonState::Of(/*is_draining=*/true, "the disk is full");
  EXPECT_EQ(state.state, "draining");
  EXPECT_EQ(state.reason, "");
}

}  // namespace
}  // namespace kiln
