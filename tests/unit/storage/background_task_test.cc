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
  BackgroundTask task([&] {
    worker = std::this_thread::get_id();
    may_end.get_future().wait();
  });
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
  BackgroundTask task([&] {
    if (++runs > 1) return;
    begun.set_value();
    may_end.get_future().wait();
  });
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
    BackgroundTask task([&] { ++runs; });
  }
  EXPECT_EQ(runs, 0);
}

}  // namespace
}  // namespace kiln
