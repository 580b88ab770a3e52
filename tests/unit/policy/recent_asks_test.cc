#include "daemon/policy/recent_asks.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

TEST(RecentAsks, CountsForASecondWhereSomebodyWaits) {
  FakeClock clock;
  RecentAsks asks(clock);
  EXPECT_FALSE(asks.JobsAsk());
  asks.Note(Priority::kWarm);
  asks.Note(Priority::kBackground);
  EXPECT_FALSE(asks.JobsAsk());
  asks.Note(Priority::kAutotune);
  clock.Advance(std::chrono::milliseconds(999));
  EXPECT_TRUE(asks.JobsAsk());
  clock.Advance(std::chrono::milliseconds(1));
  EXPECT_FALSE(asks.JobsAsk());
}

}  // namespace
}  // namespace kiln
