#include "storage/base/thread_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

namespace kiln {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

SteadyTime Soon(int ms = 0) { return SystemClock().Now() + milliseconds(ms); }

TEST(ThreadTimer, RingsWhenItIsTime) {
  ThreadTimer timer;
  std::promise<void> rang;
  const SteadyTime when = Soon(5);
  const auto alarm = timer.At(when, [&] { rang.set_value(); });
  rang.get_future().wait();
  EXPECT_GE(SystemClock().Now(), when);
}

TEST(ThreadTimer, RingsInOrderWhateverTheOrderOfSetting) {
  ThreadTimer timer;
  std::vector<int> order;
  std::promise<void> last;
  const auto third = timer.At(Soon(30), [&] {
    order.push_back(3);
    last.set_value();
  });
  const auto first = timer.At(Soon(5), [&] { order.push_back(1); });
  const auto second = timer.At(Soon(15), [&] { order.push_back(2); });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(ThreadTimer, AClearedAlarmDoesNotRing) {
  ThreadTimer timer;
  std::promise<void> later;
  {
    const auto cleared = timer.At(Soon(5), [] { FAIL(); });
  }
  const auto alarm = timer.At(Soon(10), [&] { later.set_value(); });
  later.get_future().wait();
}

TEST(ThreadTimer, AnEarlierAlarmIsNotHeldUpByALaterOne) {
  ThreadTimer timer;
  std::promise<void> rang;
  const auto late = timer.At(SystemClock().Now() + hours(1), [] { FAIL(); });
  const auto early = timer.At(Soon(), [&] { rang.set_value(); });
  rang.get_future().wait();
}

TEST(ThreadTimer, ACallbackMayClearItsOwnAlarm) {
  ThreadTimer timer;
  std::promise<void> rang;
  std::promise<void> set;
  std::unique_ptr<Alarm> alarm;
  alarm = timer.At(Soon(), [&] {
    set.get_future().wait();
    alarm.reset();
    rang.set_value();
  });
  set.set_value();
  rang.get_future().wait();
}

TEST(ThreadTimer, NoCallbackRunsAfterItsAlarmIsGone) {
  ThreadTimer timer;
  for (int round = 0; round < 300; ++round) {
    std::atomic<bool> gone = false;
    auto alarm = timer.At(Soon(), [&gone] { EXPECT_FALSE(gone); });
    alarm.reset();
    gone = true;
  }
}

}  // namespace
}  // namespace kiln
