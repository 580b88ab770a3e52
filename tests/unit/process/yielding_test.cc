#include "daemon/process/yielding.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/testing/pause.h"

namespace kiln {
namespace {

// A thread's slice in ns, by sched_getattr(2); 0 before Linux 6.12.
uint64_t SliceOf(pid_t thread) {
  std::array<uint64_t, 6> attributes{};  // size, policy; flags; nice, priority; runtime; …
  EXPECT_EQ(::syscall(SYS_sched_getattr, thread, attributes.data(), sizeof attributes, 0), 0);
  return attributes[3];
}

TEST(MakePreemptibleTest, TheSliceIsLongThroughForksAndYielding) {
  if (SliceOf(0) == 0) GTEST_SKIP() << "this kernel has no slices";
  const pid_t child = ::fork();
  if (child == 0) {
    ::nice(1);
    MakePreemptible(::getpid());
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      const bool is_long = SliceOf(0) == 100'000'000 && ::getpriority(PRIO_PROCESS, 0) == 1;
      if (MayStopYielding()) {
        Yield(::getpid());
        StopYielding(::getpid());
      }
      ::_exit(is_long && SliceOf(0) == 100'000'000 ? 0 : 1);
    }
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(status == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

std::vector<int> CoresOf(pid_t process) {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(process, sizeof set, &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// The cores that a child of this process keeps, where this process may run on these.
std::vector<int> LeftOf(const std::vector<int>& cores) {
  cpu_set_t before, set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  EXPECT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  LeaveCores(child);
  std::vector<int> left = CoresOf(child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  return left;
}

TEST(LeaveCoresTest, EveryFourthIsLeftAndOneAtLeast) {
  const std::vector<int> all = CoresOf(0);
  const auto first = [&](int count) { return std::vector(all.begin(), all.begin() + count); };
  EXPECT_EQ(LeftOf(first(1)), first(1));
  if (all.size() < 2) GTEST_SKIP() << "one core";
  EXPECT_EQ(LeftOf(first(2)), first(1));
  if (all.size() < 8) GTEST_SKIP() << "fewer than eight cores";
  std::vector<int> left = first(7);
  left.erase(left.begin() + 3);
  EXPECT_EQ(LeftOf(first(8)), left);
}

class YieldingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!MayStopYielding()) GTEST_SKIP() << "only root, or RLIMIT_NICE, may";
    child_ = ::fork();
    if (child_ > 0) return;
    ::setsid();
    for (;;) ::pause();
  }
  ~YieldingTest() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  pid_t child_ = -1;
};

TEST_F(YieldingTest, AProcessYieldsAndStops) {
  Yield(child_);
  EXPECT_EQ(::sched_getscheduler(child_), SCHED_IDLE);
  StopYielding(child_);
  EXPECT_EQ(::sched_getscheduler(child_), SCHED_OTHER);
}

TEST_F(YieldingTest, AnotherPolicyStaysAsItIs) {
  const sched_param none{};
  ASSERT_EQ(::sched_setscheduler(child_, SCHED_BATCH, &none), 0);
  StopYielding(child_);
  EXPECT_EQ(::sched_getscheduler(child_), SCHED_BATCH);
}

TEST_F(YieldingTest, ASessionWeighsLittleAndThenAsMuchAsOthers) {
  const auto weight = [this] {
    std::string group, nice, value;
    std::ifstream("/proc/" + std::to_string(child_) + "/autogroup") >> group >> nice >> value;
    return value;
  };
  while (::getsid(child_) != child_) Pause();
  if (weight().empty()) GTEST_SKIP() << "this kernel does not share out cores by sessions";
  SessionWeight session(child_);
  session.SetLow(true);
  EXPECT_EQ(weight(), "19");
  session.SetLow(false);
  EXPECT_EQ(weight(), "0");
  session.SetLow(true);  // too soon
  EXPECT_EQ(weight(), "0");
}

}  // namespace
}  // namespace kiln
