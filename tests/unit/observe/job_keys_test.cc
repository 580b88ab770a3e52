#include "daemon/observe/job_keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

constexpr uid_t kAda = 1000;
constexpr uid_t kBob = 1001;

Digest Key(int number) { return Digest::Of(fmt::format("{}", number)); }

TEST(JobKeysTest, AJobHasWhatItAskedForAndNoOtherUsersJobOfThatName) {
  JobKeys keys;
  keys.Note(kAda, "train", Key(1), true);
  keys.Note(kBob, "train", Key(2), true);
  keys.Note(kAda, "", Key(3), true);
  EXPECT_TRUE(keys.HasAsked(kAda, "train", Key(1)));
  EXPECT_FALSE(keys.HasAsked(kAda, "train", Key(2)));
  EXPECT_FALSE(keys.HasAsked(kAda, "serve", Key(1)));
  EXPECT_TRUE(keys.HasAsked("train", Key(1)) && keys.HasAsked("train", Key(2)));
  EXPECT_FALSE(keys.HasAsked("", Key(3)));
}

TEST(JobKeysTest, WhoTellsOfAKeyHasNotSentItsSource) {
  JobKeys keys;
  keys.Note(kAda, "train", Key(1), false);
  EXPECT_TRUE(keys.HasAsked("train", Key(1)));
  EXPECT_FALSE(keys.HasSent(kAda, Key(1)));
  keys.Note(kBob, "train", Key(1), true);
  EXPECT_FALSE(keys.HasSent(kAda, Key(1)));
  keys.Note(kAda, "serve", Key(1), true);
  keys.Note(kAda, "serve", Key(1), false);
  EXPECT_TRUE(keys.HasSent(kAda, Key(1)));
}

TEST(JobKeysTest, WhoHasTheMostLosesTheJobSeenLeastRecently) {
  JobKeys keys(6);
  keys.Note(kBob, "bobs", Key(100), true);
  for (int i = 0; i < 2; ++i) keys.Note(kAda, "first", Key(i), true);
  for (int i = 0; i < 3; ++i) keys.Note(kAda, "second", Key(i), true);
  keys.Note(kAda, "first", Key(0), true);
  keys.Note(kBob, "bobs", Key(101), true);
  EXPECT_TRUE(keys.HasAsked(kBob, "bobs", Key(100)) && keys.HasAsked(kBob, "bobs", Key(101)));
  EXPECT_TRUE(keys.HasAsked(kAda, "first", Key(1)));
  EXPECT_FALSE(keys.HasAsked(kAda, "second", Key(1)));
}

TEST(JobKeysTest, AUsersOnlyJobTakesNoMoreAndGoesForOthers) {
  JobKeys keys(2);
  for (int i = 0; i < 3; ++i) keys.Note(kAda, "train", Key(i), true);
  EXPECT_TRUE(keys.HasAsked(kAda, "train", Key(0)) && keys.HasAsked(kAda, "train", Key(1)));
  EXPECT_FALSE(keys.HasAsked(kAda, "train", Key(2)));
  keys.Note(kBob, "train", Key(3), true);
  EXPECT_TRUE(keys.HasAsked(kBob, "train", Key(3)));
  EXPECT_FALSE(keys.HasAsked(kAda, "train", Key(0)));
}

TEST(JobKeysTest, AUserHasFewJobsWithShortNames) {
  JobKeys keys;
  for (size_t i = 0; i <= limits::kActivityJobsPerUserMax; ++i) {
    keys.Note(kAda, fmt::format("job {}", i), Key(1), true);
  }
  EXPECT_FALSE(keys.HasAsked("job 0", Key(1)));
  EXPECT_TRUE(keys.HasAsked("job 1", Key(1)));
  const std::string long_name(limits::kActivityJobBytesMax + 1, 'x');
  keys.Note(kAda, long_name, Key(1), true);
  EXPECT_FALSE(keys.HasAsked(long_name, Key(1)));
}

}  // namespace
}  // namespace kiln
