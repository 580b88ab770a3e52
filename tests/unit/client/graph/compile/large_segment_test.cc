#include <gtest/gtest.h>

#include <ctime>

#include "client/graph/compile/planned_kernels.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

// Blocks of a product, a softmax, a sum and a view.
Segment LargeSegment(int operations) {
  SegmentMaker maker;
  const int w = maker.Input({8, 8});
  int x = maker.Input({8, 8});
  for (int i = 0; i < operations / 4; ++i) {
    const int odds = maker.Add("Softmax", {maker.Add("MatMul", {x, w})});
    x = maker.Add("Transpose", {maker.Add("Add", {odds, x})});
  }
  maker.Output(x);
  return maker.segment();
}

double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double SecondsFor(const Segment& segment) {
  const double begin = ProcessorSeconds();
  Plan plan = MakePlan(segment, {.keeps_small_sections = true}).value();
  // What the template cannot write is given back to the engine.
  const CompileConfig config{.target = "cuda:90", .available = {Compiler::kPtx}};
  EXPECT_FALSE(KernelsOf(segment, plan, config, {})->empty());
  EXPECT_GE(plan.order.size(), segment.operations.size() / 4);
  EXPECT_EQ(PlanKey(segment, {}, config).size(), 64u);
  return ProcessorSeconds() - begin;
}

TEST(LargeSegmentTest, TenThousandOperationsTakeTimeInProportion) {
  const double quarter = SecondsFor(LargeSegment(2'500));
  const double all = SecondsFor(LargeSegment(10'000));
  // 4 where time grows with the size, 16 where it grows with its square.
  EXPECT_LT(all / quarter, 10);
}

}  // namespace
}  // namespace kiln::graph
