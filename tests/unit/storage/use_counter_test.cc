#include "storage/use_counter.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

bool Count(UseCounter& uses, const Digest& key) {
  return uses.Add({key, 1, FakeClock::kStartUnixMillis});
}

TEST(UseCounterTest, UsesOfOneKeyComeTogether) {
  FakeClock clock;
  UseCounter uses(clock);
  EXPECT_FALSE(Count(uses, MadeKey("a")));
  EXPECT_FALSE(uses.Add({MadeKey("a"), 4, FakeClock::kStartUnixMillis + 9}));
  EXPECT_EQ(uses.Pending(MadeKey("a")).uses, 5u);
  const auto drained = uses.Drain();
  ASSERT_EQ(drained.size(), 1u);
  EXPECT_EQ(drained[0].uses, 5u);
  EXPECT_EQ(drained[0].last_use_unix_ms, FakeClock::kStartUnixMillis + 9);
  EXPECT_TRUE(uses.Drain().empty());
}

TEST(UseCounterTest, IsDueAfterAWhile) {
  FakeClock clock;
  UseCounter uses(clock);
  clock.Advance(limits::kPendingUsesAge);
  EXPECT_TRUE(Count(uses, MadeKey("a")));
  (void)uses.Drain();
  EXPECT_FALSE(Count(uses, MadeKey("a")));
}

TEST(UseCounterTest, IsDueWhenManyKeysWereUsed) {
  FakeClock clock;
  UseCounter uses(clock);
  for (size_t i = 1; i < limits::kPendingUsesMax; ++i) {
    ASSERT_FALSE(Count(uses, MadeKey(std::to_string(i))));
  }
  EXPECT_TRUE(Count(uses, MadeKey("the last straw")));
}

TEST(UseCounterTest, ForgottenUsesAreGone) {
  FakeClock clock;
  UseCounter uses(clock);
  (void)Count(uses, MadeKey("a"));
  uses.Forget(MadeKey("a"));
  EXPECT_EQ(uses.Pending(MadeKey("a")).uses, 0u);
}

}  // namespace
}  // namespace kiln
