#include "client/rpc/retry.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsCeiling) {
  Backoff backoff(
      {.attempts_max = 6, .backoff_first = milliseconds(100), .backoff_max = milliseconds(500)});
  for (const int ceiling : {100, 200, 400, 500, 500}) {
    const auto wait = backoff.Next(std::nullopt);
    ASSERT_TRUE(wait.has_value());
    EXPECT_LE(*wait, milliseconds(ceiling));
    EXPECT_GE(*wait, milliseconds(ceiling / 2));
  }
  EXPECT_FALSE(backoff.Next(std::nullopt).has_value());
  backoff.Reset();
  EXPECT_LE(*backoff.Next(std::nullopt), milliseconds(100));
}

TEST(Backoff, NeverComesBeforeTheHint) {
  Backoff backoff(
      {.attempts_max = 5, .backoff_first = milliseconds(10), .backoff_max = milliseconds(10)});
  EXPECT_GE(*backoff.Next(milliseconds(700)), milliseconds(700));
  EXPECT_LE(*backoff.Next(milliseconds(700)), milliseconds(710));
}

TEST(Backoff, DoesNotBelieveAnAbsurdHint) {
  Backoff backoff(
      {.attempts_max = 5, .backoff_first = milliseconds(10), .backoff_max = milliseconds(10)});
  EXPECT_LE(*backoff.Next(std::chrono::hours(1000)), std::chrono::minutes(1));
}

TEST(Backoff, OneAttemptMeansNoRepetition) {
  Backoff backoff({.attempts_max = 1});
  EXPECT_FALSE(backoff.Next(std::nullopt).has_value());
}

TEST(Backoff, ManyDoublingsDoNotOverflow) {
  Backoff backoff({.attempts_max = 1000,
                   .backoff_first = milliseconds(1000),
                   .backoff_max = milliseconds(1500)});
  while (const auto wait = backoff.Next(std::nullopt)) {
    EXPECT_GT(*wait, milliseconds(0));
    EXPECT_LE(*wait, milliseconds(1500));
  }
}

}  // namespace
}  // namespace kiln
