#include "daemon/rpc/request_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace kiln {
namespace {

using std::chrono::seconds;

constexpr SteadyTime kPast = SteadyTime::min();
constexpr SteadyTime kNever = SteadyTime::max();

TEST(RequestGateTest, EmptyFromTheStart) {
  RequestGate gate;
  gate.Close();
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
}

TEST(RequestGateTest, ClosedGateLetsNobodyInAndSaysWhenToComeBack) {
  RequestGate gate;
  EXPECT_TRUE(gate.Enter().ok());
  gate.Close();
  const absl::Status refused = gate.Enter().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RetryAfter(refused), seconds(1));
  // Who was refused is not inside.
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
}

TEST(RequestGateTest, ClosingKeepsPassesThatWereGiven) {
  RequestGate gate;
  auto first = gate.Enter();
  auto second = gate.Enter();
  ASSERT_TRUE(first.ok() && second.ok());
  RequestGate::Pass copy = *first;
  gate.Close();
  second->reset();
  EXPECT_FALSE(gate.AwaitEmpty(kPast));
  first->reset();
  EXPECT_FALSE(gate.AwaitEmpty(kPast)) << "somebody has a copy";
  copy.reset();
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
}

TEST(RequestGateTest, WaitsForTheLastToLeave) {
  RequestGate gate;
  auto last = gate.Enter();
  ASSERT_TRUE(last.ok());
  gate.Close();
  std::future<bool> emptied =
      std::async(std::launch::async, [&] { return gate.AwaitEmpty(kNever); });
  last->reset();
  EXPECT_TRUE(emptied.get());
}

TEST(RequestGateTest, ClosedAndEmptyGateHasNobodyInside) {
  RequestGate gate;
  std::atomic<int> inside = 0;
  std::atomic<int> entered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (auto pass = gate.Enter(); pass.ok(); pass = gate.Enter()) {
        ++inside;
        ++entered;
        --inside;
      }
    });
  }
  while (entered < 1000) std::this_thread::yield();
  gate.Close();
  EXPECT_TRUE(gate.AwaitEmpty(kNever));
  EXPECT_EQ(inside, 0);
  const int all = entered;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entered, all);
}

}  // namespace
}  // namespace kiln
