#include "daemon/pool/zygote_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/testing/fake_compiler.h"
#include "tests/testing/pause.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Steady = std::chrono::steady_clock;

TEST(ZygoteKeeperTest, AFailureIsAnsweredToAllWhoAskedAndNotTriedAgainBeforeItsTime) {
  ZygoteCommand command = FakeZygote("failed");
  command.retry_first = std::chrono::hours(1);
  std::atomic<int> changes = 0;
  ZygoteKeeper keeper(command, [&] { ++changes; });
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] {
      for (int again = 0; again < 3; ++again) {
        EXPECT_THAT(std::string(Message(keeper.Get().status())),
                    HasSubstr("no module named triton"));
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_THAT(keeper.State(), StartsWith("failed: "));  // what kiln doctor looks for
  keeper.Stop();
  EXPECT_EQ(changes, 1);
}

TEST(ZygoteKeeperTest, CallersSleepWhileTheZygoteStarts) {
  ZygoteCommand command = FakeZygote("silent");
  command.start_time = std::chrono::milliseconds(300);
  ZygoteKeeper keeper(command, [] {});
  const auto begin = Steady::now();
  const std::clock_t cpu_begin = std::clock();
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([&] { EXPECT_FALSE(keeper.Get().ok()); });
  for (std::thread& caller : callers) caller.join();
  const double cpu_s = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_s, std::chrono::duration<double>(Steady::now() - begin).count() / 4);
}

TEST(ZygoteKeeperTest, RetriesAFailedStartAfterItsPause) {
  ZygoteCommand command = FakeZygote("failed");
  command.retry_first = std::chrono::milliseconds(1);
  std::atomic<int> changes = 0;
  ZygoteKeeper keeper(command, [&] { ++changes; });
  while (changes < 3) EXPECT_TRUE(absl::IsUnavailable(keeper.Get().status()));
}

// As where a Python's C library is older than the one that a library to preload wants.
TEST(ZygoteKeeperTest, RetriesAFailedStartWithoutThePreferences) {
  ZygoteCommand command = FakeZygote();
  command.retry_first = std::chrono::hours(1);
  command.preferences = {"KILN_FAKE_NO_START=1"};
  ZygoteKeeper keeper(command, [] {});
  for (int i = 0; i < 2; ++i) {
    const auto zygote = keeper.Get();
    ASSERT_TRUE(zygote.ok()) << zygote.status();
    keeper.LetGo();
  }
  keeper.Stop();
}

TEST(ZygoteKeeperTest, DeadZygoteIsReplacedAtTheNextRequest) {
  std::atomic<int> changes = 0;
  ZygoteKeeper keeper(FakeZygote(), [&] { ++changes; });
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i) askers.emplace_back([&] { EXPECT_TRUE(keeper.Get().ok()); });
  for (std::thread& asker : askers) asker.join();
  const pid_t first = (*keeper.Get())->pid();
  kill(first, SIGKILL);
  while (changes < 2) Pause();  // it came up, it died
  EXPECT_EQ(keeper.State(), "not started");
  const auto second = keeper.Get();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*second)->pid(), first);
}

TEST(ZygoteKeeperTest, RefusingWakesThoseWhoWait) {
  ZygoteKeeper keeper(FakeZygote("silent"), [] {});
  std::thread asker([&] { EXPECT_TRUE(absl::IsCancelled(keeper.Get().status())); });
  while (keeper.State() != "starting") Pause();
  keeper.Refuse();
  asker.join();
  keeper.Stop();
  EXPECT_THAT(LivingDescendants(), IsEmpty());
}

}  // namespace
}  // namespace kiln
