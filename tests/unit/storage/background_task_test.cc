#include "storage/background_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace kiln {
namespace {

TEST(BackgroundTaskTest, RunsOnAnotherThreadWhileTheCallerGoesOn) {
  std::promise<void> may_end;
  std::atomic<std::thread::id> worker;
  BackgroundTask task({[&](const auto&) {
    worker = std::this_thread::get_id();
    may_end.get_future().wait();
  }});
  task.Request();
  // It cannot end before this line is reached.
  may_end.set_value();
  task.WaitUntilIdle();
  EXPECT_NE(worker.load(), std::this_thread::get_id());
  EXPECT_NE(worker.load(), std::thread::id());
}

TEST(BackgroundTaskTest, RequestDuringARunCausesOneMoreRun) {
  std::promise<void> begun;
  std::promise<void> may_end;
  std::atomic<int> runs = 0;
  BackgroundTask task({[&](const auto&) {
    if (++runs > 1) return;
    begun.set_value();
    may_end.get_future().wait();
  }});
  task.Request();
  begun.get_future().wait();
  for (int i = 0; i < 3; ++i) task.Request();
  may_end.set_value();
  task.WaitUntilIdle();
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundTaskTest, EndsWithoutEverHavingRun) {
  int runs = 0;
  {
    BackgroundTask task({[&](const auto&) { ++runs; }});
  }
  EXPECT_EQ(runs, 0);
}

TEST(BackgroundTaskTest, RunsWithoutARequestWhereItIsDue) {
  std::promise<void> has_run;
  std::atomic<bool> is_due = true;
  BackgroundTask task({[&](const auto&) { has_run.set_value(); },
                       [&] { return is_due.exchange(false); }, std::chrono::milliseconds(1)});
  has_run.get_future().wait();
}

TEST(BackgroundTaskTest, WaitersLearnOfTheEndOrOfTheStop) {
  std::promise<absl::Status> first, second, third;
  std::atomic<bool> has_begun = false;
  BackgroundTask task({[&](const std::function<bool()>& is_stopping) {
    if (has_begun.exchange(true)) {
      while (!is_stopping()) std::this_thread::yield();
    }
  }});
  task.Request([&](absl::Status status) { first.set_value(std::move(status)); });
  EXPECT_TRUE(first.get_future().get().ok());
  task.Request([&](absl::Status status) { second.set_value(std::move(status)); });
  task.Refuse();
  EXPECT_TRUE(absl::IsUnavailable(second.get_future().get()));
  task.Request([&](absl::Status status) { third.set_value(std::move(status)); });
  EXPECT_TRUE(absl::IsUnavailable(third.get_future().get()));
  task.WaitUntilIdle();
}

}  // namespace
}  // namespace kiln
