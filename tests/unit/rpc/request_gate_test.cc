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
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
  gate.Close();
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
}

TEST(RequestGateTest, ClosedGateLetsNobodyInAndSaysWhenToComeBack) {
  RequestGate gate;
  EXPECT_TRUE(gate.Enter().ok());
  gate.Leave();
  gate.Close();
  const absl::Status refused = gate.Enter();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RetryAfter(refused), seconds(1));
  // Who was refused is not inside.
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
}

TEST(RequestGateTest, WhoIsInsideStaysInsideWhenItCloses) {
  RequestGate gate;
  ASSERT_TRUE(gate.Enter().ok());
  ASSERT_TRUE(gate.Enter().ok());
  gate.Close();
  EXPECT_FALSE(gate.AwaitEmpty(kPast));
  gate.Leave();
  EXPECT_FALSE(gate.AwaitEmpty(kPast));
  gate.Leave();
  EXPECT_TRUE(gate.AwaitEmpty(kPast));
}

TEST(RequestGateTest, WaitsForTheLastToLeave) {
  RequestGate gate;
  ASSERT_TRUE(gate.Enter().ok());
  gate.Close();
  std::future<bool> emptied =
      std::async(std::launch::async, [&] { return gate.AwaitEmpty(kNever); });
  gate.Leave();
  EXPECT_TRUE(emptied.get());
}

TEST(RequestGateTest, NobodyIsInsideOnceItIsClosedAndEmpty) {
  RequestGate gate;
  std::atomic<int> inside = 0;
  std::atomic<int> entered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (gate.Enter().ok()) {
        ++inside;
        ++entered;
        --inside;
        gate.Leave();
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
