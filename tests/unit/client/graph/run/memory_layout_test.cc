#include "client/graph/run/memory_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

// A kernel for each operation.
KernelPlan PlanOf(const Segment& segment, std::vector<SectionType> off = {}) {
  PlanConfig config{.fuses = false, .keeps_small_sections = true};
  config.off = std::move(off);
  auto plan = KernelPlan::Make(segment, std::move(config), {.target = "cuda:90"});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

MemoryLayout LayoutOf(const KernelPlan& plan) {
  auto layout = MemoryLayout::Make(plan);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

const PlanBuffer& BufferAt(const MemoryLayout& layout, int value) {
  return layout.buffers().at(static_cast<size_t>(layout.BufferOf(value)));
}

uint64_t BytesAt(const MemoryLayout& layout, int value, const std::vector<int64_t>& symbols) {
  return MemoryLayout::BytesOf(BufferAt(layout, value), symbols).value_or(UINT64_MAX);
}

TEST(MemoryLayoutTest, ValuesThatAreNotNeededTogetherShareASlot) {
  SegmentMaker maker;
  std::vector<int> values = {maker.Input({1000})};
  for (int i = 0; i < 6; ++i) values.push_back(maker.Add("Relu", {values.back()}));
  maker.Output(values.back());
  const MemoryLayout layout = LayoutOf(PlanOf(maker.segment()));
  EXPECT_TRUE(BufferAt(layout, values.front()).is_external);
  EXPECT_TRUE(BufferAt(layout, values.back()).is_external);
  EXPECT_EQ(layout.slots(), 2u) << "what an operation reads and what it gives";
  for (size_t i = 1; i + 1 < values.size(); ++i) {
    EXPECT_FALSE(BufferAt(layout, values[i]).is_external);
    if (i == 1) continue;  // the one before it is the engine's
    EXPECT_NE(BufferAt(layout, values[i]).slot, BufferAt(layout, values[i - 1]).slot);
  }
  uint64_t offsets[2] = {7, 7};
  EXPECT_EQ(layout.PlaceSlots({}, offsets), 8192u) << "4000 bytes are 4096 in the workspace";
  EXPECT_EQ(offsets[0], 0u);
  EXPECT_EQ(offsets[1], 4096u);
}

TEST(MemoryLayoutTest, AValueIsKeptUntilItsLastReader) {
  SegmentMaker maker;
  const int x = maker.Input({64});
  const int early = maker.Add("Exp", {x});
  int y = early;
  for (int i = 0; i < 4; ++i) y = maker.Add("Relu", {y});
  maker.Output(maker.Add("Add", {y, early}));
  const MemoryLayout layout = LayoutOf(PlanOf(maker.segment()));
  EXPECT_EQ(layout.slots(), 3u);
  for (int value = early + 1; value <= y; ++value) {
    EXPECT_NE(BufferAt(layout, value).slot, BufferAt(layout, early).slot) << value;
  }
}

TEST(MemoryLayoutTest, OffsetsFollowTheSymbols) {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 0, 1 << 20, 64);
  const int x = maker.Input({n, 3});
  const int y = maker.Add("Exp", {x});
  const int z = maker.Add("Relu", {y});
  maker.Output(maker.Add("Exp", {z}));
  const MemoryLayout layout = LayoutOf(PlanOf(maker.segment()));
  ASSERT_EQ(layout.slots(), 2u);
  for (const int64_t size : {0, 1, 21, 22, 1000}) {
    const auto bytes = static_cast<uint64_t>(size) * 12;
    const uint64_t rounded = (bytes + 255) / 256 * 256;
    uint64_t offsets[2];
    EXPECT_EQ(BytesAt(layout, y, {size}), bytes);
    EXPECT_EQ(layout.PlaceSlots(std::vector{size}, offsets), 2 * rounded) << size;
    EXPECT_EQ(offsets[1], rounded);
  }
}

TEST(MemoryLayoutTest, WhatAnOperationOfTheEngineReadsOrGivesIsTheEngines) {
  SegmentMaker maker;
  const int x = maker.Input({4, 32});
  const int before = maker.Add("Exp", {x});
  const int scores = maker.Add("Softmax", {before});
  const int after = maker.Add("Relu", {scores});
  maker.Output(maker.Add("Exp", {after}));
  const KernelPlan plan = PlanOf(maker.segment(), {SectionType::kNormalization});
  EXPECT_TRUE(plan.steps().at(1).is_engines);
  const MemoryLayout layout = LayoutOf(plan);
  EXPECT_TRUE(BufferAt(layout, before).is_external);
  EXPECT_TRUE(BufferAt(layout, scores).is_external);
  EXPECT_FALSE(BufferAt(layout, after).is_external);
}

TEST(MemoryLayoutTest, StridesCountUpToTheLastElement) {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 0, 100, 10);
  const int strided = maker.Input({n, 5}, DType::kF16, std::vector<Size>{64, 2});
  const int repeated = maker.Input({n, 5}, DType::kF16, std::vector<Size>{0, 1});
  maker.Output(maker.Add("Add", {strided, repeated}));
  const MemoryLayout layout = LayoutOf(PlanOf(maker.segment()));
  EXPECT_EQ(BytesAt(layout, strided, {3}), (2 * 64 + 4 * 2 + 1) * 2u);
  EXPECT_EQ(BytesAt(layout, repeated, {3}), 10u);
  EXPECT_EQ(BytesAt(layout, strided, {0}), 0u);
  EXPECT_EQ(BytesAt(layout, repeated, {0}), 0u);
}

TEST(MemoryLayoutTest, ASizeThatOverflowsIsNone) {
  const PlanBuffer buffer{.bits = 64, .extents = {}, .span = Size::Of(0)};
  EXPECT_EQ(MemoryLayout::BytesOf(buffer, std::vector<int64_t>{1 << 20}), uint64_t{8} << 20);
  EXPECT_EQ(MemoryLayout::BytesOf(buffer, std::vector<int64_t>{INT64_MAX / 8}), std::nullopt);
}

TEST(MemoryLayoutTest, AWorkspaceWhoseSizeOverflowsIsNone) {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 1, 1 << 20, 64);
  int y = maker.Input({n, 8});
  std::vector<int> kept;
  for (int i = 0; i < 20; ++i) kept.push_back(y = maker.Add("Relu", {y}));
  for (const int each : kept) y = maker.Add("Add", {y, each});
  maker.Output(y);
  const MemoryLayout layout = LayoutOf(PlanOf(maker.segment()));
  ASSERT_GE(layout.slots(), 16u);
  uint64_t offsets[kSlotsMax];
  EXPECT_NE(layout.PlaceSlots(std::vector<int64_t>{1 << 20}, offsets), std::nullopt);
  // Each has 2^60 bytes, and all have more than 2^64.
  EXPECT_EQ(layout.PlaceSlots(std::vector<int64_t>{int64_t{1} << 55}, offsets), std::nullopt);
  // The size of one overflows.
  EXPECT_EQ(layout.PlaceSlots(std::vector<int64_t>{INT64_MAX}, offsets), std::nullopt);
}

}  // namespace
}  // namespace kiln::graph
