// Outputs that are views of other values' memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/graph/plan/plan.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Plan ViewPlanOf(const Segment& segment, bool gives_views = true) {
  auto plan = MakePlan(segment, {.gives_views = gives_views, .keeps_small_sections = true});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// A product [n, 64], and its transpose, which is an output.
struct Transposed {
  SegmentMaker maker;
  int product = 0;
  int output = 0;

  Transposed() {
    const Size n = maker.Symbol("n", 1, 512, 64);
    product = maker.Add("MatMul", {maker.Input({n, 32}), maker.Input({32, 64})});
    output = maker.Add("Transpose", {product});
    maker.Output(output);
  }
};

TEST(OutputViewsTest, AnOutputThatStridesExpressIsAViewOfAnIntermediate) {
  const Transposed made;
  const Plan plan = ViewPlanOf(made.maker.segment());
  EXPECT_THAT(plan.sections, SizeIs(1)) << "the product alone";
  ASSERT_THAT(plan.views, SizeIs(1));
  EXPECT_EQ(plan.views[0].value, made.output);
  EXPECT_EQ(plan.views[0].base, made.product);
  EXPECT_EQ(plan.views[0].view, (View{0, {1, 64}}));
  EXPECT_THAT(Explain(made.maker.segment(), plan),
              HasSubstr("view: Transpose (1): v3 is v2 from element 0 on, strides [1, 64]"));
}

TEST(OutputViewsTest, AnEngineThatTakesNoViewsHasACopy) {
  const Transposed made;
  const Plan plan = ViewPlanOf(made.maker.segment(), false);
  EXPECT_THAT(plan.sections, SizeIs(2));
  EXPECT_THAT(plan.views, IsEmpty());
  EXPECT_THAT(Explain(made.maker.segment(), plan),
              HasSubstr("a copy: the engine takes outputs in memory of their own"));
}

TEST(OutputViewsTest, ViewsOfViewsAreOnTheMemoryBehindThem) {
  SegmentMaker maker;
  const int x = maker.Input({4, 6, 5});
  const int rows = maker.Add("Slice", {x, maker.Integers({1}), maker.Integers({3})});
  const int turned = maker.Add("Transpose", {rows}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  maker.Output(turned);
  const Plan plan = ViewPlanOf(maker.segment());
  EXPECT_THAT(plan.sections, IsEmpty());
  ASSERT_THAT(plan.views, SizeIs(1));
  EXPECT_EQ(plan.views[0].base, x);
  EXPECT_EQ(plan.views[0].view, (View{30, {1, 30, 5}}));
}

TEST(OutputViewsTest, WhatNoStridesExpressIsACopyAndSaysSo) {
  SegmentMaker maker;
  const int x = maker.Input({4, 6});
  maker.Output(maker.Add("Reshape", {maker.Add("Transpose", {x}), maker.Integers({24})}));
  const Plan plan = ViewPlanOf(maker.segment());
  EXPECT_THAT(plan.views, IsEmpty());
  ASSERT_THAT(plan.sections, SizeIs(1));
}

TEST(OutputViewsTest, AnOutputWithStridesOfItsOwnIsWritten) {
  Transposed made;
  made.maker.segment().values[static_cast<size_t>(made.output)].strides = {1024, 1};
  const Plan plan = ViewPlanOf(made.maker.segment());
  EXPECT_THAT(plan.views, IsEmpty());
  EXPECT_THAT(plan.sections, SizeIs(2));
}

TEST(OutputViewsTest, AViewThatTheEngineReadsIsACopyForIt) {
  SegmentMaker maker;
  const int x = maker.Input({8, 8});
  const int turned = maker.Add("Transpose", {x});
  maker.Output(turned);
  maker.Output(maker.Add("Relu", {turned}));
  maker.segment().operations.back().kept_because = "it is the engine's";
  const Plan plan = ViewPlanOf(maker.segment());
  EXPECT_THAT(plan.views, IsEmpty());
  EXPECT_THAT(Explain(maker.segment(), plan), HasSubstr("a copy: a reader needs it in memory"));
}

TEST(OutputViewsTest, AnOperationThatBecomesTheEnginesGivesNoView) {
  SegmentMaker maker;
  const int x = maker.Input({8, 8});
  const int turned = maker.Add("Transpose", {x});
  maker.Output(turned);
  maker.Output(maker.Add("Relu", {turned}));
  Plan plan = ViewPlanOf(maker.segment());
  ASSERT_THAT(plan.views, SizeIs(1));
  ASSERT_THAT(plan.sections, SizeIs(1));
  EXPECT_THAT(plan.sections[0].operations, SizeIs(2));
  GiveToEngine(plan, {{0, "no compiler"}});
  EXPECT_THAT(plan.views, IsEmpty());
  EXPECT_THAT(plan.refusals, Not(IsEmpty()));
}

}  // namespace
}  // namespace kiln::graph
