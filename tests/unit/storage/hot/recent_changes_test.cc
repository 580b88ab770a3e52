#include "storage/hot/recent_changes.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

TEST(RecentChangesTest, AChangeIsRememberedUntilItIsOld) {
  FakeClock clock;
  RecentChanges changes;
  const Digest key = MadeKey("a");
  EXPECT_FALSE(changes.Contains(key, clock.Now()));
  changes.Note(key, clock.Now());
  clock.Advance(limits::kRecentChangesAge - std::chrono::seconds(1));
  EXPECT_TRUE(changes.Contains(key, clock.Now()));
  clock.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(changes.Contains(key, clock.Now()));
}

TEST(RecentChangesTest, ASecondChangeStartsAnew) {
  FakeClock clock;
  RecentChanges changes;
  changes.Note(MadeKey("a"), clock.Now());
  clock.Advance(limits::kRecentChangesAge / 2);
  changes.Note(MadeKey("a"), clock.Now());
  clock.Advance(limits::kRecentChangesAge / 2);
  changes.Note(MadeKey("b"), clock.Now());
  EXPECT_TRUE(changes.Contains(MadeKey("a"), clock.Now()));
}

TEST(RecentChangesTest, AtTheLimitNothingIsForgottenAndPastItTheOldest) {
  FakeClock clock;
  RecentChanges changes;
  changes.Note(MadeKey("first"), clock.Now());
  for (size_t i = 1; i < limits::kRecentChangesMax; ++i) {
    clock.Advance(std::chrono::nanoseconds(1));
    changes.Note(MadeKey(fmt::format("{}", i)), clock.Now());
  }
  EXPECT_TRUE(changes.Contains(MadeKey("first"), clock.Now()));
  changes.Note(MadeKey("one more"), clock.Now());
  EXPECT_FALSE(changes.Contains(MadeKey("first"), clock.Now()));
  EXPECT_TRUE(changes.Contains(MadeKey("1"), clock.Now()));
}

}  // namespace
}  // namespace kiln
