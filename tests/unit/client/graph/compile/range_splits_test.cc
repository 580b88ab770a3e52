#include "client/graph/compile/range_splits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "client/graph/compile/planned_kernels.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<PlannedKernel> SplitKernelsOf(const Segment& segment, const std::string& target,
                                          const PlanConfig& config = {
                                              .keeps_small_sections = true}) {
  Plan plan = MakePlan(segment, config).value();
  return KernelsOf(segment, plan, {.target = target}, config).value();
}

std::vector<std::string> SplitsFor(const Segment& segment, const std::string& target = "cuda:90",
                                   const PlanConfig& config = {.keeps_small_sections = true}) {
  std::vector<std::string> splits;
  for (const PlannedKernel& kernel : SplitKernelsOf(segment, target, config)) {
    if (!kernel.split.empty()) splits.push_back(kernel.split);
  }
  return splits;
}

// Tokens by weights of a language model's layer.
Segment TokensLayer(int64_t min, int64_t typical, int64_t width = 4096) {
  SegmentMaker maker;
  const Size tokens = maker.Symbol("tokens", min, 8192, typical);
  const int x = maker.Input({tokens, width}, DType::kF16);
  maker.Output(maker.Add("MatMul", {x, maker.Input({width, width}, DType::kF16)}));
  return maker.segment();
}

Segment OpenSoftmax(int64_t typical) {
  SegmentMaker maker;
  const Size rows = maker.Symbol("rows", 1, 8192, 4096);
  const Size columns = maker.Symbol("columns", 1, 8192, typical);
  maker.Output(maker.Add("Softmax", {maker.Input({rows, columns})}));
  return maker.segment();
}

// A matrix and a row, whose elements are added to each of the matrix's.
Segment AddRow() {
  SegmentMaker maker;
  const Size rows = maker.Symbol("rows", 1, 8192, 4096);
  const Size columns = maker.Symbol("columns", 1, 8192, 4096);
  maker.Output(maker.Add("Add", {maker.Input({rows, columns}), maker.Input({columns})}));
  return maker.segment();
}

TEST(RangeSplitsTest, FewTokensHaveSmallerTilesThanTypicalOnes) {
  EXPECT_THAT(SplitsFor(TokensLayer(1, 2048)), ElementsAre("tokens up to 256: smaller tiles"));
  const std::vector<PlannedKernel> kernels = SplitKernelsOf(TokensLayer(1, 2048), "cuda:90");
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_EQ(kernels[0].program.symbols[0].max, 256);
  EXPECT_EQ(kernels[1].program.symbols[0].max, 8192);
  EXPECT_NE(kernels[0].kernel.text, kernels[1].kernel.text);
  EXPECT_EQ(kernels[0].buffers, kernels[1].buffers);
}

TEST(RangeSplitsTest, ARangeThatIsSmallOrHasNoFewTokensIsWhole) {
  EXPECT_THAT(SplitsFor(TokensLayer(1, 500)), IsEmpty());
  EXPECT_THAT(SplitsFor(TokensLayer(257, 2048)), IsEmpty());
}

TEST(RangeSplitsTest, AKernelThatIsShorterThanALaunchIsWhole) {
  EXPECT_THAT(SplitsFor(TokensLayer(1, 2048, 256)), IsEmpty());
}

TEST(RangeSplitsTest, RowsOfAnyLengthAreSplitByWholeVectors) {
  EXPECT_THAT(SplitsFor(OpenSoftmax(4096)),
              ElementsAre("columns a multiple of 8: rows are whole vectors"));
  EXPECT_THAT(SplitsFor(AddRow()), ElementsAre("columns a multiple of 8: rows are whole vectors"));
}

TEST(RangeSplitsTest, WhatIsAMultipleAlreadyIsWhole) {
  Segment segment = OpenSoftmax(4096);
  segment.symbols[1] = {"columns", 16, 8192, 4096, 16};
  EXPECT_THAT(SplitsFor(segment), IsEmpty());
}

TEST(RangeSplitsTest, VectorsThatCrossRowsNeedNoSplit) {
  SegmentMaker maker;
  const Size rows = maker.Symbol("rows", 1, 8192, 4096);
  const Size columns = maker.Symbol("columns", 1, 8192, 4096);
  maker.Output(maker.Add("Exp", {maker.Input({rows, columns})}));
  EXPECT_THAT(SplitsFor(maker.segment()), IsEmpty());
}

TEST(RangeSplitsTest, ATextThatWouldBeTheSameIsNone) {
  EXPECT_THAT(SplitsFor(TokensLayer(1, 2048), "spirv:1.2"), IsEmpty()) << "OpenCL C has no tiles";
}

TEST(RangeSplitsTest, TheCallerMaySwitchItOff) {
  EXPECT_THAT(SplitsFor(TokensLayer(1, 2048), "cuda:90",
                        {.splits_ranges = false, .keeps_small_sections = true}),
              IsEmpty());
}

// A product of which every dimension is open.
Segment OpenProduct() {
  SegmentMaker maker;
  std::vector<Size> shape;
  for (int i = 0; i < 3; ++i) shape.push_back(maker.Symbol("s" + std::to_string(i), 1, 8192, 4096));
  const int x = maker.Input({shape[0], shape[1]}, DType::kF16);
  maker.Output(maker.Add("MatMul", {x, maker.Input({shape[1], shape[2]}, DType::kF16)}));
  return maker.segment();
}

TEST(RangeSplitsTest, SmallTilesHaveWholeVectorsAndDoNotPushThoseOut) {
  EXPECT_THAT(SplitsFor(OpenProduct()),
              ElementsAre("s0 up to 256: smaller tiles; s1, s2 a multiple of 8: rows are whole "
                          "vectors",
                          "s1, s2 a multiple of 8: rows are whole vectors"));
  EXPECT_EQ(CostModel{}.splits_max, 2u) << "s2 up to 256 has no room";
}

TEST(RangeSplitsTest, ARangeWithoutSuchMultiplesIsWhole) {
  Segment segment = OpenSoftmax(9);
  segment.symbols[0] = {"rows", 4096, 1 << 20, 1 << 20, 1};
  segment.symbols[1] = {"columns", 9, 15, 9, 1};
  EXPECT_THAT(SplitsFor(segment), IsEmpty());
  segment.symbols[1] = {"columns", 9, 16, 9, 1};
  EXPECT_THAT(SplitsFor(segment), SizeIs(1));
}

TEST(RangeSplitsTest, TheKeyCoversTheSplit) {
  const Segment segment = TokensLayer(1, 2048);
  std::set<std::string> keys;
  PlanConfig config;
  keys.insert(PlanKey(segment, config, {.target = "cuda:90"}));
  config.splits_ranges = false;
  keys.insert(PlanKey(segment, config, {.target = "cuda:90"}));
  config = {};
  config.model.split_small = 128;
  keys.insert(PlanKey(segment, config, {.target = "cuda:90"}));
  EXPECT_EQ(keys.size(), 3u);
}

TEST(RangeSplitsTest, TheExplanationSaysIt) {
  EXPECT_THAT(Explain(SplitKernelsOf(TokensLayer(1, 2048), "cuda:90")),
              HasSubstr("; for tokens up to 256: smaller tiles"));
}

}  // namespace
}  // namespace kiln::graph
