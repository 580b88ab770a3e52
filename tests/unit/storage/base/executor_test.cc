#include "storage/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "tests/testing/inline_executor.h"

namespace kiln {
namespace {

TEST(ThreadExecutor, RunsOnItsOwnThread) {
  ThreadExecutor executor(1, 10);
  std::promise<std::thread::id> ran;
  executor.Run([&] { ran.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
}

TEST(ThreadExecutor, RunsEverythingBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    ThreadExecutor executor(2, 1000);
    for (int i = 0; i < 100; ++i) executor.Run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(ThreadExecutor, WhenItIsFullTheCallerWorks) {
  std::promise<void> release;
  std::promise<void> is_busy;
  std::thread::id overflow_ran_on;
  {
    ThreadExecutor executor(1, 1);
    executor.Run([&] {
      is_busy.set_value();
      release.get_future().wait();
    });
    is_busy.get_future().wait();
    executor.Run([] {});
    executor.Run([&] { overflow_ran_on = std::this_thread::get_id(); });
    EXPECT_EQ(overflow_ran_on, std::this_thread::get_id());
    release.set_value();
  }
}

TEST(InlineExecutor, RunsAtOnce) {
  InlineExecutor executor;
  bool ran = false;
  executor.Run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace kiln
