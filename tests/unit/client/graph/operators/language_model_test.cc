// Expected elements of rotary embeddings are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

// Angles of three places.
const OperationTensor kCosines = {{3, 2}, {-2.5, 1, -1, 2.5, 0.5, -1.5}};
const OperationTensor kSines = {{3, 2}, {-1.5, -1.5, -1.5, -1.5, -1.5, -1.5}};
const OperationTensor kPlaces = {{1, 2}, {2, 0}, DType::kI64};

SingleOperation Rotary(OperationTensor x, Attributes attributes = {}) {
  SingleOperation rotary("RotaryEmbedding", std::move(attributes));
  rotary.Input(std::move(x)).Input(kCosines).Input(kSines).Input(kPlaces);
  return rotary;
}

TEST(RotaryEmbeddingTest, HalvesOfAHeadAreRotatedTogether) {
  EXPECT_THAT(Rotary(Numbered({1, 2, 2, 4})).Elements(),
              ElementsAre(-5.5, 4.5, 6.5, -10.5, 3.5, -3, -11.5, 4.5, -3.5, -12, 5.5, 3, 2.5, -0.5,
                          -15.5, 4));
}

TEST(RotaryEmbeddingTest, NeighboursAreRotatedTogetherWhereInterleaved) {
  EXPECT_THAT(Rotary(Numbered({1, 2, 2, 4}), {{"interleaved", 1}}).Elements(),
              ElementsAre(0.5, 8.5, 10.5, -4.5, -7, 6, 4, -6, 2.5, 7.5, -6, 9, -8, 2, 6.5, -6.5));
}

TEST(RotaryEmbeddingTest, HeadsLieSideBySideInThreeDimensions) {
  EXPECT_THAT(Rotary(Numbered({1, 2, 8}), {{"num_heads", 2}}).Elements(),
              ElementsAre(-5.5, 4.5, 6.5, -10.5, 6.5, 4.5, 0.5, 4.5, 8.5, -4.5, 8.5, -9.5, 2.5,
                          -0.5, -15.5, 4));
}

TEST(RotaryEmbeddingTest, ColumnsBehindTheRotatedOnesStay) {
  SingleOperation rotary("RotaryEmbedding", {{"rotary_embedding_dim", 2}});
  rotary.Input(Numbered({1, 2, 2, 4})).Input({{3, 1}, {-2.5, -1, 0.5}});
  rotary.Input({{3, 1}, {-1.5, -1.5, -1.5}}).Input(kPlaces);
  EXPECT_THAT(rotary.Elements(),
              ElementsAre(0.5, 8.5, -2, 5, -7, 6, 4, 0, 2.5, 7.5, -1, -5, -8, 2, 5, 1));
}

TEST(RotaryEmbeddingTest, WithoutPlacesTheCacheHasAnAngleForEach) {
  SingleOperation rotary("RotaryEmbedding");
  rotary.Input({{1, 1, 2, 2}, {1, 2, 3, 4}}).Input({{1, 2, 1}, {1, 0}}).Input({{1, 2, 1}, {0, 1}});
  EXPECT_THAT(rotary.Elements(), ElementsAre(1, 2, -4, 3));
}

TEST(RotaryEmbeddingTest, ACacheOfAnotherWidthIsAnError) {
  EXPECT_THAT(Rotary(Numbered({1, 2, 2, 6})).Shape(),
              HasSubstr("a cache of [3, 2] does not fit 6 rotated columns of [1, 2, 2, 6]"));
}

TEST(RotaryEmbeddingTest, PlacesWithoutAnAngleAreLeftAsTheyAre) {
  SingleOperation rotary("RotaryEmbedding");
  rotary.Input({{1, 1, 1, 2}, {3, 4}}).Input({{2, 1}, {0, 0}}).Input({{2, 1}, {1, 1}});
  rotary.Input({{1, 1}, {2}, DType::kI64});
  EXPECT_THAT(rotary.Elements(), ElementsAre(3, 4));
}

// A quarter turn at place 1, nothing at place 0.
SingleOperation RotaryCache() {
  SingleOperation rotary("RotaryCache");
  rotary.Input({{1, 1, 2, 2}, {1, 2, 3, 4}}).Input({{2, 1}, {1, 0}}).Input({{2, 1}, {0, 1}});
  rotary.Input({{1, 2}, {0, 1}, DType::kI64}).Input({{1, 1, 4, 2}, {9, 9, 9, 9, 9, 9, 9, 9}});
  return rotary;
}

TEST(RotaryCacheTest, RotatedKeysAreWrittenAtTheirPlaces) {
  const auto outputs = RotaryCache().Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, ElementsAre(1, 2, -4, 3));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(1, 2, -4, 3, 9, 9, 9, 9));
}

TEST(RotaryCacheTest, ACacheCanBeWrittenElsewhere) {
  SingleOperation rotary = RotaryCache();
  rotary.Input({{1}, {2}, DType::kI64});
  const auto outputs = rotary.Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(9, 9, 9, 9, 1, 2, -4, 3));
}

TEST(RotaryCacheTest, NoNewKeysLeaveTheCacheAsItIs) {
  SingleOperation rotary("RotaryCache");
  rotary.Input({{1, 1, 0, 2}, {}}).Input({{2, 1}, {1, 0}}).Input({{2, 1}, {0, 1}});
  rotary.Input({{1, 0}, {}, DType::kI64}).Input({{1, 1, 2, 2}, {9, 8, 7, 6}});
  const auto outputs = rotary.Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(9, 8, 7, 6));
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const OperationTensor kRow = {{1, 4}, {1, -2, 0.5, 3}};

TEST(GatedUnitTest, GluGatesWithTheSecondHalf) {
  EXPECT_THAT(SingleOperation("GLU").Input(kRow).Elements(),
              ElementsAre(DoubleNear(Sigmoid(0.5), 1e-6), DoubleNear(-2 * Sigmoid(3), 1e-6)));
}

TEST(GatedUnitTest, SwigluGatesWithTheFirstHalf) {
  const auto expected =
      ElementsAre(DoubleNear(Sigmoid(1) * 0.5, 1e-6), DoubleNear(-2 * Sigmoid(-2) * 3, 1e-6));
  EXPECT_THAT(SingleOperation("SwiGLU").Input(kRow).Elements(), expected);
  EXPECT_THAT(
      SingleOperation("SwiGLU").Input({{1, 2}, {1, -2}}).Input({{1, 2}, {0.5, 3}}).Elements(),
      expected);
}

TEST(GatedUnitTest, AlphaScalesTheGateWithinTheSigmoid) {
  EXPECT_THAT(SingleOperation("SwiGLU", {{"alpha", 0.5}}).Input({{2}, {3, 2}}).Elements(),
              ElementsAre(DoubleNear(3 * Sigmoid(1.5) * 2, 1e-6)));
}

TEST(GatedUnitTest, GegluIsExactOrAnApproximation) {
  EXPECT_THAT(SingleOperation("GeGLU").Input({{2}, {1, 2}}).Elements(),
              ElementsAre(DoubleNear(2 * 0.841344746, 1e-6)));
  EXPECT_THAT(SingleOperation("GeGLU", {{"approximate", "tanh"}}).Input({{2}, {1, 2}}).Elements(),
              ElementsAre(DoubleNear(2 * 0.841191990, 1e-6)));
}

TEST(GatedUnitTest, HalvesLieAlongTheAxis) {
  SingleOperation unit("GLU", {{"axis", 0}});
  unit.Input({{2, 2}, {1, 2, 0, 0}});
  EXPECT_EQ(unit.Shape(), "[1, 2]");
  EXPECT_THAT(unit.Elements(), ElementsAre(0.5, 1));
}

TEST(GatedUnitTest, AnOddWidthHasNoHalves) {
  EXPECT_THAT(SingleOperation("GLU").Input(Numbered({2, 3})).Shape(),
              HasSubstr("[3] has no halves"));
}

}  // namespace
}  // namespace kiln::graph
