// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

TEST(ConvolutionTest, PaddingCountsAsZero) {
  SingleOperation conv("Conv", {{"pads", Ints{1, 1}}});
  conv.Input(Numbered({1, 2, 5})).Input(Numbered({2, 2, 3}));
  EXPECT_EQ(conv.Shape(), "[1, 2, 5]");
  EXPECT_THAT(conv.Elements(), ElementsAre(-29, 22, 8, 5, -40, -25, -25, 20, -23, 5));
}

TEST(ConvolutionTest, StridesDilationsAndBiasJoin) {
  SingleOperation conv("Conv",
                       {{"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{2, 1}}});
  conv.Input(Numbered({1, 2, 5})).Input(Numbered({2, 2, 3})).Input(Numbered({2}));
  EXPECT_THAT(conv.Elements(), ElementsAre(-14, -10, 13, -46));
}

TEST(ConvolutionTest, EachGroupReadsItsChannels) {
  SingleOperation conv("Conv", {{"group", 2}, {"strides", Ints{2, 1}}, {"pads", Ints{0, 1, 1, 0}}});
  conv.Input(Numbered({1, 2, 4, 4})).Input(Numbered({2, 1, 2, 3}));
  EXPECT_EQ(conv.Shape(), "[1, 2, 2, 3]");
  EXPECT_THAT(conv.Elements(), ElementsAre(-4, 23, -35, -6, 21, -15, -14, 23, 24, -24, 20, 21));
}

TEST(ConvolutionTest, AutomaticPaddingGoesToTheNamedSide) {
  const auto elements = [](const std::string& mode) {
    return SingleOperation("Conv", {{"auto_pad", mode}, {"strides", Ints{2}}})
        .Input(Numbered({1, 1, 5}))
        .Input(Numbered({1, 1, 4}))
        .Elements();
  };
  EXPECT_THAT(elements("SAME_UPPER"), ElementsAre(-24, -19, -23));
  EXPECT_THAT(elements("SAME_LOWER"), ElementsAre(20, 58, 18));
  EXPECT_THAT(elements("VALID"), ElementsAre(58));
}

TEST(ConvolutionTest, ThreeDimensionsSlide) {
  SingleOperation conv("Conv");
  conv.Input(Numbered({1, 1, 3, 2, 2})).Input(Numbered({1, 1, 2, 2, 2}));
  EXPECT_EQ(conv.Shape(), "[1, 1, 2, 1, 1]");
  EXPECT_THAT(conv.Elements(), ElementsAre(84, -36));
}

TEST(ConvolutionTest, AnImageOfUnknownHeightHasPositionsOfThatHeight) {
  SingleOperation conv("Conv", {{"auto_pad", "SAME_UPPER"}});
  conv.Symbols({{.name = "h", .min = 1, .max = 8, .typical = 8, .multiple_of = 1}}, {3});
  conv.Input({{1, 1, Size::Of(0)}, {1, 2, 3}}).Input({{1, 1, 2}, {10, 1}});
  EXPECT_EQ(conv.Shape(), "[1, 1, h]");
  EXPECT_THAT(conv.Elements(), ElementsAre(12, 23, 30));
}

TEST(ConvolutionTest, ZeroPointsAreTakenOffAndPadIntegers) {
  SingleOperation conv("ConvInteger", {{"pads", Ints{1, 0}}});
  conv.Input(Numbered({1, 1, 4}, 1, DType::kU8)).Input(Numbered({2, 1, 2}, 1, DType::kU8));
  conv.Input({{}, {3}, DType::kU8});
  EXPECT_THAT(conv.Elements(), ElementsAre(-16, 38, 13, 65, -22, 47, 31, 92));
  conv.Input({{2}, {1, 2}, DType::kU8});  // of each output channel
  EXPECT_THAT(conv.Elements(), ElementsAre(-14, 35, 7, 56, -18, 41, 19, 74));
}

TEST(ConvolutionTest, ConvTransposeSpreadsElements) {
  SingleOperation conv("ConvTranspose", {{"strides", Ints{2}}});
  conv.Input(Numbered({1, 2, 3})).Input(Numbered({2, 1, 3}));
  EXPECT_EQ(conv.Shape(), "[1, 1, 7]");
  EXPECT_THAT(conv.Elements(), ElementsAre(50, -5, -10, 5, -12, -7, 13));
}

TEST(ConvolutionTest, ConvTransposeHasPaddingOnBothSidesOfItsOutput) {
  SingleOperation conv("ConvTranspose", {{"strides", Ints{2}},
                                         {"pads", Ints{1, 0}},
                                         {"output_padding", Ints{1}},
                                         {"dilations", Ints{2}}});
  conv.Input(Numbered({1, 2, 3})).Input(Numbered({2, 1, 3})).Input(Numbered({1}));
  EXPECT_THAT(conv.Elements(), ElementsAre(-5, -15, -5, -10, -5, -19, -5, 8, -5));
}

TEST(ConvolutionTest, ConvTransposeInTwoDimensions) {
  SingleOperation conv("ConvTranspose", {{"strides", Ints{1, 2}}});
  conv.Input(Numbered({1, 2, 2, 2})).Input(Numbered({2, 2, 2, 3}));
  EXPECT_EQ(conv.Shape(), "[1, 2, 3, 5]");
  EXPECT_THAT(conv.Elements(),
              ElementsAre(27, -12, -1, 10, -19, -6, -20, 25, 21, -28, -6, -14, 47, 5, -15, -20, -4,
                          31, 12, -17, -24, -16, 76, 13, -36, -10, -18, 33, -5, -25));
}

TEST(ConvolutionTest, ConvTransposeGroupsStayApart) {
  SingleOperation conv("ConvTranspose", {{"group", 2}});
  conv.Input({{1, 2, 2}, {1, 2, 3, 4}}).Input({{2, 1, 2}, {1, 10, 5, 7}});
  EXPECT_THAT(conv.Elements(), ElementsAre(1, 12, 20, 15, 41, 28));
}

TEST(ConvolutionTest, ConvTransposePadsToWantedSizes) {
  const auto elements = [](const std::string& mode, int64_t kernel) {
    return SingleOperation("ConvTranspose", {{"auto_pad", mode}, {"strides", Ints{2}}})
        .Input(Numbered({1, 1, 3}))
        .Input(Numbered({1, 1, kernel}))
        .Elements();
  };
  EXPECT_THAT(elements("SAME_UPPER", 4), ElementsAre(-10, 0, -21, 6, 6, 4));
  EXPECT_THAT(elements("SAME_LOWER", 3), ElementsAre(-10, 0, 4, 6, -4, 4));
  EXPECT_THAT(SingleOperation("ConvTranspose", {{"output_shape", Ints{6}}, {"strides", Ints{2}}})
                  .Input(Numbered({1, 1, 3}))
                  .Input(Numbered({1, 1, 3}))
                  .Elements(),
              ElementsAre(-10, 0, 4, 6, -4, 4));
}

TEST(ConvolutionTest, AWeightOfOtherChannelsIsAnError) {
  EXPECT_THAT(SingleOperation("Conv").Input(Numbered({1, 3, 5})).Input(Numbered({2, 2, 3})).Shape(),
              HasSubstr("a weight of [2, 2, 3] does not fit [1, 3, 5] in 1 groups"));
  EXPECT_THAT(SingleOperation("Conv", {{"kernel_shape", Ints{2}}})
                  .Input(Numbered({1, 2, 5}))
                  .Input(Numbered({2, 2, 3}))
                  .Shape(),
              HasSubstr("does not fit"));
}

TEST(ConvolutionTest, AWindowThatIsTooLargeIsAnError) {
  EXPECT_THAT(SingleOperation("Conv").Input(Numbered({1, 1, 2})).Input(Numbered({1, 1, 4})).Shape(),
              HasSubstr("the window is larger than the input and its padding"));
}

TEST(CausalConvWithStateTest, ChannelsSeeThePastAndGiveTheNextOne) {
  SingleOperation convolution("CausalConvWithState");
  convolution.Input({{1, 2, 3}, {1, 2, 3, 4, 5, 6}}).Input({{2, 1, 2}, {10, 1, 0, 2}});
  convolution.Input({{2}, {0, 100}}).Input({{1, 2, 1}, {7, 8}});
  const auto outputs = convolution.Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, ElementsAre(71, 12, 23, 108, 110, 112));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(3, 6));
}

TEST(CausalConvWithStateTest, AShortInputLeavesZerosOfThePast) {
  SingleOperation convolution("CausalConvWithState");
  convolution.Input({{1, 1, 1}, {5}}).Input({{1, 1, 4}, {1, 1, 1, 2}});
  const auto outputs = convolution.Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, ElementsAre(10));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(0, 0, 5));
}

}  // namespace
}  // namespace kiln::graph
