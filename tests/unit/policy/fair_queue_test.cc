#include "daemon/policy/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

using Ticket = FairQueue::Ticket;

CallContext Caller(uid_t uid, Priority priority = Priority::kWaitingRank, std::string job = "") {
  CallContext context;
  context.principal.uid = uid;
  context.priority = priority;
  context.job = std::move(job);
  return context;
}

class FairQueueTest : public testing::Test {
 protected:
  Ticket Push(const CallContext& context) { return *queue_.Push(context, 1); }
  std::vector<Ticket> PopAll() {
    std::vector<Ticket> order;
    while (const auto ticket = queue_.Pop()) order.push_back(*ticket);
    return order;
  }
  using Order = std::vector<Ticket>;

  FairQueue queue_{{100'000, 100'000}};
};

TEST_F(FairQueueTest, IsFirstComeFirstServedWithinAJob) {
  const Ticket a = Push(Caller(1));
  const Ticket b = Push(Caller(1));
  const Ticket c = Push(Caller(1));
  EXPECT_EQ(PopAll(), (Order{a, b, c}));
  EXPECT_EQ(queue_.Pop(), std::nullopt);
}

TEST_F(FairQueueTest, TheMoreUrgentGoFirst) {
  const Ticket background = Push(Caller(1, Priority::kBackground));
  const Ticket warm = Push(Caller(1, Priority::kWarm));
  const Ticket autotune = Push(Caller(1, Priority::kAutotune));
  const Ticket rank = Push(Caller(1, Priority::kWaitingRank));
  EXPECT_EQ(queue_.LengthAt(Priority::kWarm), 1u);
  EXPECT_EQ(PopAll(), (Order{rank, autotune, warm, background}));
}

TEST_F(FairQueueTest, PrincipalsTakeTurns) {
  const Ticket a1 = Push(Caller(1));
  const Ticket a2 = Push(Caller(1));
  const Ticket a3 = Push(Caller(1));
  const Ticket b1 = Push(Caller(2));
  const Ticket b2 = Push(Caller(2));
  EXPECT_EQ(PopAll(), (Order{a1, b1, a2, b2, a3}));
}

TEST_F(FairQueueTest, ABacklogDelaysAnotherUserByOneAtMost) {
  for (int i = 0; i < 10'000; ++i) Push(Caller(1));
  for (int i = 0; i < 100; ++i) queue_.Pop();
  const Ticket other = Push(Caller(2));
  const Ticket next = *queue_.Pop();
  EXPECT_TRUE(next == other || *queue_.Pop() == other);
}

TEST_F(FairQueueTest, JobsOfOnePrincipalTakeTurns) {
  const Ticket x1 = Push(Caller(1, Priority::kWaitingRank, "x"));
  const Ticket x2 = Push(Caller(1, Priority::kWaitingRank, "x"));
  const Ticket y1 = Push(Caller(1, Priority::kWaitingRank, "y"));
  EXPECT_EQ(PopAll(), (Order{x1, y1, x2}));
}

TEST_F(FairQueueTest, InventingJobsTakesNothingFromOthers) {
  for (int i = 0; i < 10; ++i) Push(Caller(1, Priority::kWaitingRank, std::to_string(i)));
  const Ticket b1 = Push(Caller(2));
  const Ticket b2 = Push(Caller(2));
  const Order order = PopAll();
  EXPECT_EQ(order[1], b1);
  EXPECT_EQ(order[3], b2);
}

TEST_F(FairQueueTest, TheLessUrgentAreNotStarved) {
  const Ticket background = Push(Caller(1, Priority::kBackground));
  const Ticket warm = Push(Caller(1, Priority::kWarm));
  for (int i = 0; i < 100; ++i) Push(Caller(1, Priority::kAutotune));
  const Order order = PopAll();
  // The one that came first, whatever its priority.
  EXPECT_EQ(order[15], background);
  EXPECT_EQ(order[31], warm);
}

TEST_F(FairQueueTest, ARaisedTicketKeepsItsAge) {
  const Ticket old_warm = Push(Caller(1, Priority::kWarm));
  const Ticket warm = Push(Caller(1, Priority::kWarm));
  const Ticket rank = Push(Caller(1, Priority::kWaitingRank));
  queue_.Raise(old_warm, Priority::kWaitingRank);
  EXPECT_EQ(queue_.LengthAt(Priority::kWaitingRank), 2u);
  EXPECT_EQ(PopAll(), (Order{old_warm, rank, warm}));
}

TEST_F(FairQueueTest, RaisingNeverLowers) {
  const Ticket rank = Push(Caller(1));
  queue_.Raise(rank, Priority::kBackground);
  queue_.Raise(rank, Priority::kWaitingRank);
  queue_.Raise(rank + 1, Priority::kWaitingRank);
  EXPECT_EQ(queue_.LengthAt(Priority::kWaitingRank), 1u);
}

TEST_F(FairQueueTest, ARemovedTicketIsGone) {
  const Ticket a = Push(Caller(1));
  const Ticket b = Push(Caller(1));
  EXPECT_TRUE(queue_.Remove(a));
  EXPECT_FALSE(queue_.Remove(a));
  EXPECT_EQ(PopAll(), (Order{b}));
  EXPECT_EQ(queue_.bytes(), 0u);
}

TEST(FairQueueLimits, HoldAtTheLimitAndOneBeyond) {
  FairQueue queue({4, 100, 1.0});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.Push(Caller(1), 10).ok());
  EXPECT_EQ(queue.Push(Caller(2), 10).status().code(), absl::StatusCode::kResourceExhausted);
  queue.Pop();
  EXPECT_TRUE(queue.Push(Caller(2), 10).ok());
}

TEST(FairQueueLimits, HoldForBytesToo) {
  FairQueue queue({10, 100, 1.0});
  EXPECT_TRUE(queue.Push(Caller(1), 60).ok());
  EXPECT_EQ(queue.Push(Caller(2), 41).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue.Push(Caller(2), 40).ok());
}

TEST(FairQueueLimits, OneUserCannotFillTheQueue) {
  FairQueue queue({4, 1000, 0.5});
  EXPECT_TRUE(queue.Push(Caller(1), 1).ok());
  EXPECT_TRUE(queue.Push(Caller(1), 1).ok());
  EXPECT_EQ(queue.Push(Caller(1), 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue.Push(Caller(2), 1).ok());
  queue.Pop();
  EXPECT_TRUE(queue.Push(Caller(1), 1).ok());
}

}  // namespace
}  // namespace kiln
