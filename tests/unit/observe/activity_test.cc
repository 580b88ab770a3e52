#include "daemon/observe/activity.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/testing/fake_clock.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using std::chrono::hours;

class ActivityTest : public ::testing::Test {
 protected:
  void Restart() {
    activity_->Save();
    activity_ = std::make_unique<Activity>(path_, OsFilesystem(), clock_);
  }
  // The count of that job; 0 where it has no row.
  uint64_t Count(uid_t uid, std::string_view job, ActivityKind kind) const {
    for (const JobActivity& one : activity_->List()) {
      if (one.uid == uid && one.job == job) return one.Of(kind).kernels;
    }
    return 0;
  }

  TempDirectory directory_;
  FakeClock clock_;
  const std::string path_ = directory_.File("activity");
  std::unique_ptr<Activity> activity_ = std::make_unique<Activity>(path_, OsFilesystem(), clock_);
};

TEST_F(ActivityTest, CountsByUserAndJobAndSurvivesARestart) {
  const int64_t since = activity_->since_unix_ms();
  activity_->Note(1000, "train", ActivityKind::kHot, {3, 500, 9000});
  activity_->Note(1000, "", ActivityKind::kCompiled);
  activity_->Note(2000, "train", ActivityKind::kOwn, {1, 7});
  EXPECT_TRUE(activity_->HasChanged());
  clock_.Advance(hours(1));
  Restart();
  EXPECT_FALSE(activity_->HasChanged());
  EXPECT_EQ(activity_->since_unix_ms(), since);
  EXPECT_EQ(Count(1000, "train", ActivityKind::kHot), 3u);
  EXPECT_EQ(Count(1000, "", ActivityKind::kCompiled), 1u);
  EXPECT_EQ(Count(2000, "train", ActivityKind::kOwn), 1u);
  EXPECT_EQ(activity_->List(2000).size(), 1u);
  EXPECT_EQ(activity_->List(2000)[0].Of(ActivityKind::kOwn).saved_micros, 7u);
  activity_->Note(1000, "train", ActivityKind::kHot);
  EXPECT_EQ(Count(1000, "train", ActivityKind::kHot), 4u);
}

TEST_F(ActivityTest, AJobIsWarmedByItsUserOrRootUnderItsName) {
  activity_->Note(1000, "train", ActivityKind::kWarmed);
  activity_->Note(0, "serve", ActivityKind::kWarmed);
  activity_->Note(1000, "", ActivityKind::kWarmed);
  activity_->Note(1000, "other", ActivityKind::kCompiled);
  Restart();
  EXPECT_TRUE(activity_->IsWarmed(1000, "train"));
  EXPECT_TRUE(activity_->IsWarmed(2000, "serve"));
  EXPECT_FALSE(activity_->IsWarmed(2000, "train"));
  EXPECT_FALSE(activity_->IsWarmed(1000, ""));
  EXPECT_FALSE(activity_->IsWarmed(1000, "other"));
}

TEST_F(ActivityTest, DaysAreCountedForAllUsersTogetherAndTheOldestGo) {
  activity_->Note(1000, "train", ActivityKind::kHot, {2, 5, 100});
  activity_->Note(2000, "serve", ActivityKind::kHot, {1, 2, 10});
  const int64_t first = activity_->Days().at(0).day;
  clock_.Advance(hours(48));
  activity_->Note(1000, "train", ActivityKind::kCompiled);
  Restart();
  auto days = activity_->Days();
  ASSERT_EQ(days.size(), 2u);
  EXPECT_EQ(days[0].counts[0], (ActivityCount{3, 7, 110}));
  EXPECT_EQ(days[1].day, first + 2);
  for (size_t i = 0; i < limits::kActivityDaysMax; ++i) {
    clock_.Advance(hours(24));
    activity_->Note(1000, "train", ActivityKind::kHot);
  }
  days = activity_->Days();
  EXPECT_EQ(days.size(), limits::kActivityDaysMax);
  EXPECT_EQ(days.front().day, first + 3);
  EXPECT_EQ(days.back().counts[0], ActivityCount{1});
}

TEST_F(ActivityTest, AUserWithManyJobsLosesNoCountAndTakesNobodysPlace) {
  activity_->Note(2000, "serve", ActivityKind::kHot);
  for (int i = 0; i < 1000; ++i) {
    clock_.Advance(std::chrono::seconds(1));
    activity_->Note(1000, "job " + std::to_string(i), ActivityKind::kDisk);
  }
  const auto jobs = activity_->List(1000);
  EXPECT_EQ(jobs.size(), limits::kActivityJobsPerUserMax + 1);
  EXPECT_EQ(Count(1000, Activity::kEarlierJobs, ActivityKind::kDisk),
            1000 - limits::kActivityJobsPerUserMax);
  EXPECT_EQ(Count(1000, "job 999", ActivityKind::kDisk), 1u);
  EXPECT_EQ(Count(2000, "serve", ActivityKind::kHot), 1u);
  Restart();
  EXPECT_EQ(activity_->List(1000).size(), limits::kActivityJobsPerUserMax + 1);
}

TEST_F(ActivityTest, UsersBeyondTheLimitCountTogether) {
  constexpr size_t kUsers = limits::kActivityUsersMax + 10;
  // Uids that want the same place.
  for (size_t i = 0; i < kUsers; ++i) {
    activity_->Note(static_cast<uid_t>(i * 1024), "train", ActivityKind::kHot);
  }
  EXPECT_EQ(activity_->List().size(), limits::kActivityUsersMax + 1);
  EXPECT_EQ(Count(Activity::kOtherUsers, "train", ActivityKind::kHot), 10u);
  EXPECT_EQ(Count(1024, "train", ActivityKind::kHot), 1u);
}

TEST_F(ActivityTest, UsersWhoAreLongGoneGiveUpTheirPlace) {
  activity_->Note(1000, "train", ActivityKind::kHot);
  activity_->Note(2000, "train", ActivityKind::kHot);
  clock_.Advance(limits::kActivityAge + hours(1));
  activity_->Note(2000, "serve", ActivityKind::kHot);
  Restart();
  EXPECT_TRUE(activity_->List(1000).empty());
  EXPECT_EQ(activity_->List(2000).size(), 2u);
  EXPECT_EQ(Count(Activity::kOtherUsers, Activity::kEarlierJobs, ActivityKind::kHot), 1u);
}

TEST_F(ActivityTest, ALongNameIsCutAtTheEndOfACharacter) {
  std::string name(limits::kActivityJobBytesMax - 1, 'x');
  activity_->Note(1000, name + "\u00e9\u00e9", ActivityKind::kHot);
  EXPECT_EQ(activity_->List(1000)[0].job, name);
}

TEST_F(ActivityTest, ADamagedFileIsPassedOver) {
  activity_->Note(1000, "train", ActivityKind::kHot);
  activity_->Save();
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20);
  file.put('!');
  file.close();
  EXPECT_TRUE(Activity(path_, OsFilesystem(), clock_).List().empty());
}

TEST_F(ActivityTest, ThreadsLoseNoCount) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int i = 0; i < 2000; ++i) {
        activity_->Note(static_cast<uid_t>(i % 7), "job " + std::to_string(i % 50),
                        ActivityKind::kMemory, {1, 2});
      }
    });
  }
  for (int i = 0; i < 20; ++i) activity_->Save();
  for (std::thread& thread : threads) thread.join();
  uint64_t count = 0;
  uint64_t saved = 0;
  for (const JobActivity& one : activity_->List()) {
    count += one.Of(ActivityKind::kMemory).kernels;
    saved += one.Of(ActivityKind::kMemory).saved_micros;
  }
  EXPECT_EQ(count, 8000u);
  EXPECT_EQ(saved, 16000u);
}

}  // namespace
}  // namespace kiln
