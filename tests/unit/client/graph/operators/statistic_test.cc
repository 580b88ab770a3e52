// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

TEST(StatisticTest, ShapeListsDimensionsThatAreKnownAtRunTime) {
  const auto shape = [](Attributes attributes) {
    SingleOperation operation("Shape", std::move(attributes));
    operation.Symbols({{.name = "n", .min = 1, .max = 8, .typical = 8, .multiple_of = 1}}, {2});
    return operation.Input({{Size::Of(0), 3, 1}, {1, 2, 3, 4, 5, 6}}).Elements();
  };
  EXPECT_THAT(shape({}), ElementsAre(2, 3, 1));
  EXPECT_THAT(shape({{"start", -2}}), ElementsAre(3, 1));
  EXPECT_THAT(shape({{"start", 0}, {"end", -2}}), ElementsAre(2));
}

TEST(StatisticTest, SizeCountsElements) {
  EXPECT_THAT(SingleOperation("Size").Input(Numbered({2, 3})).Elements(), ElementsAre(6));
}

TEST(StatisticTest, EmbeddingGathersRowsOfItsTable) {
  SingleOperation embedding("Embedding");
  embedding.Input({{3, 2}, {1, 2, 3, 4, 5, 6}}).Input({{1, 2}, {2, 0}, DType::kI64});
  EXPECT_EQ(embedding.Shape(), "[1, 2, 2]");
  EXPECT_THAT(embedding.Elements(), ElementsAre(5, 6, 1, 2));
}

TEST(StatisticTest, DynamicQuantizeLinearSpreadsTheRangeOverBytes) {
  SingleOperation quantize("DynamicQuantizeLinear");
  const auto outputs = quantize.Input({{6}, {0, 2, -3, -2.5, 1.34, 0.5}}).Run(3);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, ElementsAre(153, 255, 0, 26, 221, 179));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(DoubleNear(5.0 / 255, 1e-7)));
  EXPECT_THAT((*outputs)[2].elements, ElementsAre(153));
}

TEST(StatisticTest, TheRangeOfPositiveNumbersBeginsAtZero) {
  SingleOperation quantize("DynamicQuantizeLinear");
  EXPECT_THAT(quantize.Input({{3}, {1, 2, 3}}).Elements(), ElementsAre(85, 170, 255));
}

TEST(StatisticTest, MeanVarianceNormalizationIsOfEachChannel) {
  const std::vector<double> expected = {-1.31056, 1.13582,  -1.31056, 1.13582,
                                        0.78633,  -0.61159, 0.78633,  -0.61159};
  EXPECT_THAT(SingleOperation("MeanVarianceNormalization").Input(Numbered({2, 2, 2, 1})).Elements(),
              Pointwise(DoubleNear(1e-4), expected));
}

}  // namespace
}  // namespace kiln::graph
