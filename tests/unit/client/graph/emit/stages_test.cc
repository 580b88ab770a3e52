#include "client/graph/emit/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/graph/compile/section_groups.h"
#include "client/graph/emit/cuda.h"
#include "tests/testing/graph/host_kernels.h"
#include "tests/testing/graph/plan_runner.h"
#include "tests/testing/graph/program_cases.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Rows that a block shares, rows of a thread each, and elements that are moved 16 bytes at a time.
Segment Mixed() {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 0, 1000, 20);
  const int x = maker.Input({n, 203});
  const int rows = maker.Add("Softmax", {x});
  const int sums = maker.Add("ReduceSum", {rows, maker.Integers({0})});
  const int columns = maker.Add("Softmax", {maker.Add("Mul", {rows, sums})});
  maker.Output(maker.Add("ReduceMax", {columns, maker.Integers({1})}));
  maker.Output(maker.Add("Neg", {columns}));
  maker.Output(columns);
  return maker.segment();
}

struct Group {
  GroupPrograms made;
  EmittedKernel kernel;
  Plan plan;
};

Group GroupOf(const Segment& segment) {
  const PlanConfig config{.keeps_small_sections = true, .barriers = GridBarriers::kAlways};
  Group group;
  group.plan = MakePlan(segment, config).value();
  GroupSections(segment, config, {.target = "cuda:90"}, group.plan);
  EXPECT_EQ(group.plan.groups.size(), 1u);
  group.made = LowerGroup(segment, group.plan, group.plan.groups.at(0)).value();
  group.kernel = EmitCudaStages("grouped", group.made.programs, {}).value();
  return group;
}

TEST(StagesTest, StagesTogetherAndEachAloneComputeWhatTheInterpreterDoes) {
  const Segment segment = Mixed();
  const Group group = GroupOf(segment);
  ASSERT_GE(group.kernel.stages.size(), 5u);
  HostKernels host;
  ASSERT_TRUE(host.Build({group.kernel}).ok()) << group.kernel.text;
  for (const int64_t n : {1, 20, 301, 0}) {
    std::map<int, TestBuffer> expected;
    expected.emplace(0, TestBuffer(DType::kF32, n * 203));
    for (int64_t i = 0; i < n * 203; ++i) {
      expected.at(0).SetNumber(i, static_cast<double>(i * 37 % 101) / 16);
    }
    const std::map<int, TestBuffer> before = expected;
    ASSERT_TRUE(RunPlan(segment, group.plan, {n}, expected).ok());
    for (const HostStages stages : {HostStages::kTogether, HostStages::kEach}) {
      std::vector<TestBuffer> buffers;
      for (const int value : group.made.values) {
        const TestBuffer& after = expected.at(value);
        buffers.push_back(before.contains(value) ? after : TestBuffer(after.type(), after.size()));
      }
      host.Run(group.kernel, {n}, buffers, stages);
      for (size_t i = 0; i < buffers.size(); ++i) {
        EXPECT_EQ(Difference(expected.at(group.made.values[i]), buffers[i]), "")
            << "value " << group.made.values[i] << " of " << n << " rows\n"
            << group.kernel.text;
      }
    }
  }
}

TEST(StagesTest, ABarrierStandsOnlyBeforeAStageThatReadsWhatIsNew) {
  SegmentMaker maker;
  const int x = maker.Input({8, 64});
  const int one = maker.Add("Softmax", {x});
  const int other = maker.Add("Softmax", {maker.Input({8, 64})});
  maker.Output(maker.Add("Softmax", {maker.Add("Mul", {one, other})}));
  maker.Output(one);
  maker.Output(other);
  const std::string text = GroupOf(maker.segment()).kernel.text;
  EXPECT_EQ(CountOf(text, "kiln_grid_barrier(state, ticket, "), 1) << text;
  EXPECT_THAT(text, HasSubstr("if (stage == 3) kiln_grid_open(state, ticket);"));
}

TEST(StagesTest, WhatTheKernelWritesIsReadThroughNoConstantPointer) {
  const std::string text = GroupOf(Mixed()).kernel.text;
  EXPECT_EQ(CountOf(text.substr(text.find("grouped(")), "__restrict__"), 1) << "the input alone";
}

TEST(StagesTest, StagesThatNeedNoBarrierHaveNone) {
  SegmentMaker maker;
  const int x = maker.Input({8, 64});
  maker.Output(maker.Add("Softmax", {x}));
  maker.Output(maker.Add("LogSoftmax", {x}));
  EXPECT_EQ(CountOf(GroupOf(maker.segment()).kernel.text, "kiln_grid"), 0);
}

TEST(StagesDeathTest, BlocksThatWaitForEachOtherForEverEndTheTest) {
  const EmittedKernel kernel{
      .text =
          "typedef unsigned long long u64;\n__global__ void waiting(u64* state, unsigned, "
          "unsigned) { while (kiln_host_load(state) != blockIdx.x) {} }",
      .entry = "waiting",
      .threads = 2,
      .grid = {},
      .stages = {{1, 1}}};
  HostKernels host;
  ASSERT_TRUE(host.Build({kernel}).ok());
  std::vector<TestBuffer> none;
  EXPECT_DEATH(host.Run(kernel, {}, none), "3 of 3 blocks wait for ever");
}

}  // namespace
}  // namespace kiln::graph
