#include <gmock/gmock.h>

#include "client/graph/operators/views.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

const OperationTensor kTwoByThree = {{2, 3}, {0, 1, 2, 3, 4, 5}};

TEST(ViewRulesTest, ReshapeInfersTheOpenSizeAndCopiesZeros) {
  EXPECT_EQ(SingleOperation("Reshape").Input(kTwoByThree).Input(KnownInts({3, -1})).Shape(),
            "[3, 2]");
  EXPECT_EQ(SingleOperation("Reshape").Input(kTwoByThree).Input(KnownInts({0, -1})).Shape(),
            "[2, 3]");
  EXPECT_THAT(SingleOperation("Reshape").Input(kTwoByThree).Input(KnownInts({4, -1})).Shape(),
              HasSubstr("Reshape: [2, 3] does not fit"));
  EXPECT_THAT(SingleOperation("Reshape").Input(kTwoByThree).Input(KnownInts({3, -1})).Elements(),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(ViewRulesTest, ReshapeKeepsASymbolicSize) {
  const std::vector<Symbol> symbols = {{"batch", 1, 64, 8, 1}};
  SingleOperation reshape("Reshape");
  reshape.Symbols(symbols, {2})
      .Input({{Size::Of(0), 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}})
      .Input(KnownInts({-1, 4}));
  EXPECT_EQ(reshape.Shape(), "[batch, 4]");
  EXPECT_THAT(reshape.Elements(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(ViewRulesTest, TransposeReversesWithoutPermutation) {
  EXPECT_THAT(SingleOperation("Transpose").Input(kTwoByThree).Elements(),
              ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ViewRulesTest, SliceStepsBackwards) {
  EXPECT_THAT(SingleOperation("Slice")
                  .Input(kTwoByThree)
                  .Input(KnownInts({-1}))
                  .Input(KnownInts({-100}))
                  .Input(KnownInts({1}))
                  .Input(KnownInts({-2}))
                  .Elements(),
              ElementsAre(2, 0, 5, 3));
}

TEST(ViewRulesTest, SliceOfASymbolicSizeNeedsLimitsThatTell) {
  const auto shape = [](int64_t least) {
    return SingleOperation("Slice", {{"starts", Ints{2}}, {"ends", Ints{INT64_MAX}}})
        .Symbols({{"length", least, 64, 8, 1}}, {})
        .Input({{Size::Of(0)}, {}})
        .Shape();
  };
  EXPECT_EQ(shape(2), "[length - 2]");
  EXPECT_THAT(shape(1), HasSubstr("limits"));
}

TEST(ViewRulesTest, SplitGivesTheLastPartWhatIsLeft) {
  const auto parts =
      SingleOperation("Split", {{"axis", 1}, {"num_outputs", 2}}).Input(kTwoByThree).Run(2);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT((*parts)[0].elements, ElementsAre(0, 1, 3, 4));
  EXPECT_THAT((*parts)[1].elements, ElementsAre(2, 5));
}

TEST(ViewRulesTest, UnstackGivesAnOutputForEachPlace) {
  SingleOperation unstack("Unstack", {{"axis", -1}});
  unstack.Input(kTwoByThree);
  const auto parts = unstack.Run(3);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT((*parts)[0].elements, ElementsAre(0, 3));
  EXPECT_THAT((*parts)[2].elements, ElementsAre(2, 5));
  EXPECT_THAT(unstack.Run(2).status().message(), HasSubstr("2 outputs for a dimension of [3]"));
}

TEST(ViewRulesTest, DepthGoesToSpaceInBothOrders) {
  const OperationTensor x = {{1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_THAT(SingleOperation("DepthToSpace", {{"blocksize", 2}}).Input(x).Elements(),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(SingleOperation("DepthToSpace", {{"blocksize", 2}, {"mode", std::string("CRD")}})
                  .Input(x)
                  .Elements(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(ViewRulesTest, SpaceGoesToDepth) {
  EXPECT_THAT(SingleOperation("SpaceToDepth", {{"blocksize", 2}})
                  .Input({{1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}})
                  .Elements(),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(SingleOperation("SpaceToDepth", {{"blocksize", 2}, {"mode", "CRD"}})
                  .Input({{1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}})
                  .Elements(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

std::optional<View> ReshapeViewOf(const std::vector<Size>& from, const std::vector<Size>& to,
                                  const View& view) {
  Segment segment;
  segment.values.resize(2);
  segment.values[0].shape = from;
  segment.values[1].shape = to;
  return ViewOf(segment, {"Reshape", {0}, {1}, {}}, 0, view);
}

TEST(ViewsTest, ReshapeIsAViewWhereStridesAllow) {
  const auto split = ReshapeViewOf({6, 4}, {2, 3, 4}, {5, {1, 6}});
  ASSERT_TRUE(split);
  EXPECT_EQ(*split, (View{5, {3, 1, 6}}));
  EXPECT_FALSE(ReshapeViewOf({6, 4}, {24}, {0, {1, 6}}));
}

TEST(MovementTest, ConcatJoinsAlongTheAxis) {
  EXPECT_THAT(SingleOperation("Concat", {{"axis", -1}})
                  .Input(kTwoByThree)
                  .Input({{2, 1}, {10, 20}})
                  .Elements(),
              ElementsAre(0, 1, 2, 10, 3, 4, 5, 20));
}

TEST(MovementTest, StackMakesADimension) {
  EXPECT_THAT(
      SingleOperation("Stack", {{"axis", 1}}).Input({{2}, {1, 2}}).Input({{2}, {3, 4}}).Elements(),
      ElementsAre(1, 3, 2, 4));
}

TEST(MovementTest, PadTakesEachMode) {
  const auto padded = [](const std::string& mode) {
    return SingleOperation("Pad", {{"mode", mode}, {"value", 9.0}})
        .Input({{3}, {0, 1, 2}})
        .Input(KnownInts({2, 3}))
        .Elements();
  };
  EXPECT_THAT(padded("constant"), ElementsAre(9, 9, 0, 1, 2, 9, 9, 9));
  EXPECT_THAT(padded("edge"), ElementsAre(0, 0, 0, 1, 2, 2, 2, 2));
  EXPECT_THAT(padded("reflect"), ElementsAre(2, 1, 0, 1, 2, 1, 0, 1));
  EXPECT_THAT(padded("wrap"), ElementsAre(1, 2, 0, 1, 2, 0, 1, 2));
}

TEST(MovementTest, WhatMayBeEmptyIsPaddedWithANumberAlone) {
  const auto shape = [](const std::string& mode, int64_t least) {
    return SingleOperation("Pad", {{"mode", mode}})
        .Symbols({{"n", least, 8, 4, 1}}, {})
        .Input({{Size::Of(0)}, {}})
        .Input(KnownInts({2, 3}))
        .Shape();
  };
  for (const std::string mode : {"edge", "reflect", "wrap"}) {
    EXPECT_THAT(shape(mode, 0), HasSubstr("there are no elements to repeat where n is 0"));
    EXPECT_EQ(shape(mode, 1), "[n + 5]");
  }
  EXPECT_EQ(shape("constant", 0), "[n + 5]");
}

TEST(MovementTest, OneElementIsItsOwnReflection) {
  EXPECT_THAT(SingleOperation("Pad", {{"mode", "reflect"}})
                  .Symbols({{"n", 1, 8, 4, 1}}, {1})
                  .Input({{Size::Of(0)}, {7}})
                  .Input(KnownInts({2, 1}))
                  .Elements(),
              ElementsAre(7, 7, 7, 7));
}

TEST(MovementTest, CenterCropPadKeepsTheMiddle) {
  const auto centered = [](const std::vector<double>& shape) {
    return SingleOperation("CenterCropPad").Input(kTwoByThree).Input(KnownInts(shape)).Elements();
  };
  EXPECT_THAT(centered({1, 2}), ElementsAre(0, 1));
  EXPECT_THAT(centered({3, 1}), ElementsAre(1, 4, 0));
  EXPECT_THAT(SingleOperation("CenterCropPad", {{"axes", Ints{-1}}})
                  .Input(kTwoByThree)
                  .Input(KnownInts({6}))
                  .Elements(),
              ElementsAre(0, 0, 1, 2, 0, 0, 0, 3, 4, 5, 0, 0));
}

TEST(MovementTest, TriluKeepsATriangle) {
  const OperationTensor x = {{2, 2}, {1, 2, 3, 4}};
  EXPECT_THAT(SingleOperation("Trilu").Input(x).Elements(), ElementsAre(1, 2, 0, 4));
  EXPECT_THAT(
      SingleOperation("Trilu", {{"upper", 0}}).Input(x).Input({{}, {-1}, DType::kI64}).Elements(),
      ElementsAre(0, 0, 3, 0));
}

TEST(MovementTest, TileReverseAndRollMoveElements) {
  const OperationTensor x = {{3}, {1, 2, 3}};
  EXPECT_THAT(SingleOperation("Tile").Input(x).Input(KnownInts({2})).Elements(),
              ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(SingleOperation("Reverse").Input(x).Elements(), ElementsAre(3, 2, 1));
  EXPECT_THAT(SingleOperation("Roll", {{"shifts", Ints{1}}, {"axes", Ints{0}}}).Input(x).Elements(),
              ElementsAre(3, 1, 2));
}

TEST(MovementTest, ReverseSequenceReversesEachLength) {
  EXPECT_THAT(SingleOperation("ReverseSequence", {{"batch_axis", 0}, {"time_axis", 1}})
                  .Input(kTwoByThree)
                  .Input({{2}, {2, 3}, DType::kI64})
                  .Elements(),
              ElementsAre(1, 0, 2, 5, 4, 3));
}

TEST(IndexingTest, GatherCountsNegativeIndicesFromTheEnd) {
  EXPECT_THAT(SingleOperation("Gather", {{"axis", 1}})
                  .Input(kTwoByThree)
                  .Input({{2}, {-1, 0}, DType::kI32})
                  .Elements(),
              ElementsAre(2, 0, 5, 3));
}

TEST(IndexingTest, GatherBeyondTheTensorReadsNothing) {
  EXPECT_THAT(
      SingleOperation("Gather").Input(kTwoByThree).Input({{1}, {1000}, DType::kI64}).Elements(),
      ElementsAre(0, 0, 0));
}

TEST(IndexingTest, GatherElementsAndGatherNdFollowTheirIndices) {
  EXPECT_THAT(SingleOperation("GatherElements", {{"axis", 1}})
                  .Input(kTwoByThree)
                  .Input({{2, 1}, {2, 0}, DType::kI64})
                  .Elements(),
              ElementsAre(2, 3));
  EXPECT_THAT(SingleOperation("GatherND")
                  .Input(kTwoByThree)
                  .Input({{2, 2}, {0, 1, 1, 2}, DType::kI64})
                  .Elements(),
              ElementsAre(1, 5));
}

TEST(IndexingTest, OneHotTakesOffAndOn) {
  EXPECT_THAT(SingleOperation("OneHot")
                  .Input({{2}, {1, -1}, DType::kI64})
                  .Input(KnownInts({3}))
                  .Input({{2}, {7, 9}})
                  .Elements(),
              ElementsAre(7, 9, 7, 7, 7, 9));
}

std::vector<double> Scatter(const std::string& reduction) {
  return SingleOperation("ScatterElements", {{"reduction", reduction}})
      .Input({{3}, {10, 20, 30}})
      .Input({{3}, {1, -1, 1}, DType::kI64})
      .Input({{3}, {2, 3, 4}})
      .Elements();
}

TEST(IndexingTest, ScatterElementsReducesUpdatesOfOnePlace) {
  EXPECT_THAT(Scatter("none"), ElementsAre(10, 4, 3));
  EXPECT_THAT(Scatter("add"), ElementsAre(10, 26, 33));
  EXPECT_THAT(Scatter("mul"), ElementsAre(10, 160, 90));
  EXPECT_THAT(Scatter("min"), ElementsAre(10, 2, 3));
  EXPECT_THAT(Scatter("max"), ElementsAre(10, 20, 30));
}

TEST(IndexingTest, ScatterNdReplacesSlices) {
  EXPECT_THAT(SingleOperation("ScatterND")
                  .Input(kTwoByThree)
                  .Input({{1, 1}, {1}, DType::kI64})
                  .Input({{1, 3}, {7, 8, 9}})
                  .Elements(),
              ElementsAre(0, 1, 2, 7, 8, 9));
}

TEST(IndexingTest, TensorScatterWritesRowsOfEachBatch) {
  const auto written = [](const std::string& mode, std::vector<double> places) {
    SingleOperation scatter("TensorScatter", {{"mode", mode}});
    scatter.Input({{2, 3, 1}, {1, 2, 3, 4, 5, 6}}).Input({{2, 2, 1}, {10, 20, 30, 40}});
    return scatter.Input({{2}, std::move(places), DType::kI64}).Elements();
  };
  EXPECT_THAT(written("linear", {1, 0}), ElementsAre(1, 10, 20, 30, 40, 6));
  EXPECT_THAT(written("circular", {2, 1}), ElementsAre(20, 2, 10, 4, 30, 40));
}

}  // namespace
}  // namespace kiln::graph
