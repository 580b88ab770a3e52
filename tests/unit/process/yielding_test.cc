#include "daemon/process/yielding.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/testing/pause.h"

namespace kiln {
namespace {

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
