#include "client/graph/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;

TEST(GiveToEngineTest, AnOperationOfTwoSectionsIsDoneWhereTheFirstNeedsIt) {
  SegmentMaker maker;
  const int x = maker.Input({64, 32});
  const int shared = maker.Add("Neg", {x});
  maker.Output(maker.Add("ReduceSum", {shared}));
  maker.Output(maker.Add("Softmax", {shared}));
  Plan plan = MakePlan(maker.segment(), {.keeps_small_sections = true}).value();
  ASSERT_EQ(plan.sections.size(), 2u);
  ASSERT_EQ(plan.sections[0].operations.size(), 2u);
  GiveToEngine(plan, {{1, "the second failed"}});
  GiveToEngine(plan, {{0, "the first failed"}});
  GiveToEngine(plan, {{0, "again"}});
  std::vector<int> operations;
  for (const Plan::Step& step : plan.order) {
    ASSERT_FALSE(step.is_section);
    operations.push_back(plan.refusals[static_cast<size_t>(step.number)].operation);
  }
  EXPECT_THAT(operations, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace kiln::graph
