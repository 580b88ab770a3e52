#include "client/graph/compile/section_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/graph/compile/planned_kernels.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

const CompileConfig kCuda90{.target = "cuda:90"};

// Softmaxes of 64 rows, one after the other: each reads and writes 32 KB.
Segment Softmaxes(int count, int64_t columns = 64) {
  SegmentMaker maker;
  int x = maker.Input({64, columns});
  for (int i = 0; i < count; ++i) x = maker.Add("Softmax", {x});
  maker.Output(x);
  return maker.segment();
}

Plan Grouped(const Segment& segment, PlanConfig config, const CompileConfig& compile = kCuda90) {
  config.model.barrier_bytes = 1e6;
  Plan plan = MakePlan(segment, config).value();
  GroupSections(segment, config, compile, plan);
  return plan;
}

TEST(SectionGroupsTest, TheScoreJoinsSmallSections) {
  const Segment segment = Softmaxes(3);
  Plan plan = Grouped(segment, {});
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_TRUE(plan.groups[0].is_joined);
  EXPECT_EQ(plan.groups[0].sections, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.groups[0].reason, "score 1.90 MB: 2 launches less, 0.10 MB moved");
  EXPECT_THAT(Explain(segment, plan), HasSubstr("one kernel: sections 0, 1, 2: score 1.90 MB"));
  const auto kernels = KernelsOf(segment, plan, kCuda90, {});
  ASSERT_EQ(kernels->size(), 1u);
  EXPECT_EQ(kernels->front().kernel.entry, "kiln_3_stages");
  EXPECT_EQ(kernels->front().kernel.stages.size(), 3u);
  EXPECT_EQ(kernels->front().buffers, (std::vector<int>{0, 1, 2, 3}));
}

TEST(SectionGroupsTest, TheScoreLeavesLargeSectionsApart) {
  EXPECT_TRUE(Grouped(Softmaxes(3, 4096), {}).groups.empty());
  // Each is worth it beside others, both together are not: there is one launch to save.
  const Segment two = Softmaxes(2, 1024);
  const Plan plan = Grouped(two, {});
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_FALSE(plan.groups[0].is_joined);
  EXPECT_THAT(Explain(two, plan), HasSubstr("a launch each: sections 0, 1: score -0.05 MB"));
}

TEST(SectionGroupsTest, TheDefaultScoreJoinsNothing) {
  const Segment segment = Softmaxes(3, 1);
  Plan plan = MakePlan(segment, {}).value();
  GroupSections(segment, {}, kCuda90, plan);
  EXPECT_EQ(plan.sections.size(), 3u);
  EXPECT_TRUE(plan.groups.empty());
}

TEST(SectionGroupsTest, TheConfigurationForcesAndForbids) {
  const Segment large = Softmaxes(3, 4096);
  const Plan forced = Grouped(large, {.barriers = GridBarriers::kAlways});
  ASSERT_EQ(forced.groups.size(), 1u);
  EXPECT_TRUE(forced.groups[0].is_joined);
  EXPECT_EQ(forced.groups[0].reason, "it is forced");
  EXPECT_TRUE(Grouped(Softmaxes(3), {.barriers = GridBarriers::kNever}).groups.empty());
  EXPECT_TRUE(Grouped(Softmaxes(3), {.fuses = false}).groups.empty());
}

TEST(SectionGroupsTest, WhereNoKernelWithBarriersIsWrittenEachIsALaunch) {
  const Segment segment = Softmaxes(3);
  const auto reason = [&](const CompileConfig& config) {
    const Plan plan = Grouped(segment, {.barriers = GridBarriers::kAlways}, config);
    EXPECT_FALSE(plan.groups.at(0).is_joined);
    return plan.groups.at(0).reason;
  };
  EXPECT_EQ(reason({.target = "spirv:1.2"}),
            "no kernels with grid barriers are written for spirv:1.2");
  EXPECT_EQ(reason({.target = "cuda:61"}), "no kernels with grid barriers are written for cuda:61");
  EXPECT_EQ(reason({.target = "cuda:90", .available = {Compiler::kTriton}}),
            "kernels with grid barriers are CUDA C++, which may not be used");
}

TEST(SectionGroupsTest, ProductsAndTheEnginesStepsEndAGroup) {
  SegmentMaker maker;
  const int x = maker.Input({64, 64});
  const int two = maker.Add("Softmax", {maker.Add("Softmax", {x})});
  const int product = maker.Add("MatMul", {two, x});
  maker.Output(maker.Add("Softmax", {maker.Add("Softmax", {product})}));
  const Plan plan = Grouped(maker.segment(), {});
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].sections, (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.groups[1].sections, (std::vector<int>{3, 4}));
}

TEST(SectionGroupsTest, AGroupHasABound) {
  const Plan plan = Grouped(Softmaxes(40), {});
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].sections.size(), 32u);
  EXPECT_EQ(plan.groups[1].sections.size(), 8u);
}

TEST(SectionGroupsTest, WhatCannotBeWrittenIsSeparatedWithTheReason) {
  SegmentMaker maker;
  const int x = maker.Input({63, maker.Symbol("n", 1, 64, 64)}, DType::kI4);
  const int first = maker.Add("Identity", {x});
  maker.Output(first);
  maker.Output(maker.Add("Identity", {first}));
  const PlanConfig config{.keeps_small_sections = true, .barriers = GridBarriers::kAlways};
  Plan plan = Grouped(maker.segment(), config);
  ASSERT_EQ(plan.groups.size(), 1u);
  ASSERT_TRUE(KernelsOf(maker.segment(), plan, kCuda90, {}).ok());
  EXPECT_FALSE(plan.groups[0].is_joined);
  EXPECT_THAT(plan.groups[0].reason, HasSubstr("an output of 4 bits"));
}

TEST(SectionGroupsTest, EqualLayersHaveOneText) {
  SegmentMaker maker;
  const int x = maker.Input({64, 64});
  const int product = maker.Add("MatMul", {maker.Add("Softmax", {maker.Add("Softmax", {x})}), x});
  maker.Output(maker.Add("Softmax", {maker.Add("Softmax", {product})}));
  Plan plan = Grouped(maker.segment(), {});
  const auto kernels = KernelsOf(maker.segment(), plan, kCuda90, {});
  ASSERT_EQ(kernels->size(), 3u);
  EXPECT_EQ(kernels->at(0).kernel.text, kernels->at(2).kernel.text);
}

TEST(SectionGroupsTest, SectionsThatCannotBeSeparatedAreTheEngines) {
  const Segment segment = Softmaxes(3);
  Plan plan = Grouped(segment, {});
  auto kernels = KernelsOf(segment, plan, kCuda90, {});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const CompileConfig ptx{.target = "cuda:90", .available = {}, .forced = Compiler::kPtx};
  const absl::Status status = SeparateGroup(segment, plan, *kernels, 0, ptx, {}, "it crashed");
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ptx cannot write it"));
  EXPECT_TRUE(kernels->at(0).is_dropped);
  EXPECT_EQ(plan.refusals.size(), 3u);
  for (const Plan::Step& step : plan.order) EXPECT_FALSE(step.is_section);
}

}  // namespace
}  // namespace kiln::graph
