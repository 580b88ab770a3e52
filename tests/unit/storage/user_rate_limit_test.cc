#include "storage/user_rate_limit.h"

#include <gmock/gmock.h>

#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class UserRateLimitTest : public testing::Test {
 protected:
  // What it is told to wait; 0 where it may put.
  milliseconds Spend(uid_t uid, uint64_t bytes) {
    const absl::Status status = pace_.Spend(uid, bytes);
    if (status.ok()) return milliseconds(0);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    return RetryAfter(status).value();
  }

  FakeClock clock_;
  UserRateLimit pace_{{.bytes_at_once = 1000, .bytes_per_second = 100, .users_max = 2}, clock_};
};

TEST_F(UserRateLimitTest, BurstIsFollowedByAPause) {
  EXPECT_EQ(Spend(1, 400), milliseconds(0));
  EXPECT_EQ(Spend(1, 600), milliseconds(0));
  EXPECT_EQ(Spend(1, 50), milliseconds(500));
  clock_.Advance(milliseconds(250));
  EXPECT_EQ(Spend(1, 50), milliseconds(250));
  clock_.Advance(milliseconds(250));
  EXPECT_EQ(Spend(1, 50), milliseconds(0));
}

TEST_F(UserRateLimitTest, RefusedPutsAreNotCounted) {
  EXPECT_EQ(Spend(1, 900), milliseconds(0));
  EXPECT_EQ(Spend(1, 200), milliseconds(1000));
  EXPECT_EQ(Spend(1, 200), milliseconds(1000));
  EXPECT_EQ(Spend(1, 100), milliseconds(0));
}

TEST_F(UserRateLimitTest, LongPauseAllowsNoMoreThanABurst) {
  EXPECT_EQ(Spend(1, 1000), milliseconds(0));
  clock_.Advance(seconds(1000));
  EXPECT_EQ(Spend(1, 1000), milliseconds(0));
  EXPECT_EQ(Spend(1, 1000), milliseconds(10'000));
}

TEST_F(UserRateLimitTest, PutLargerThanABurstWaitsForAnEmptyAccount) {
  EXPECT_EQ(Spend(1, 1), milliseconds(0));
  EXPECT_EQ(Spend(1, 5000), milliseconds(10));
  clock_.Advance(milliseconds(10));
  EXPECT_EQ(Spend(1, 5000), milliseconds(0));
}

TEST_F(UserRateLimitTest, PutsOfOneUserDoNotDelayOtherUsers) {
  EXPECT_EQ(Spend(1, 1000), milliseconds(0));
  EXPECT_EQ(Spend(2, 1000), milliseconds(0));
}

TEST_F(UserRateLimitTest, UserWithTheFewestBytesIsForgottenFirst) {
  EXPECT_EQ(Spend(1, 1000), milliseconds(0));
  EXPECT_EQ(Spend(2, 900), milliseconds(0));
  EXPECT_EQ(Spend(3, 950), milliseconds(0));
  EXPECT_GT(Spend(1, 200), milliseconds(0));
  EXPECT_GT(Spend(3, 200), milliseconds(0));
  EXPECT_EQ(Spend(2, 200), milliseconds(0));
}

}  // namespace
}  // namespace kiln
