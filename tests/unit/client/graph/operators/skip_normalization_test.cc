#include <gmock/gmock.h>

#include <cmath>

#include "tests/testing/graph/single_operation.h"
#include "tests/unit/client/graph/operators/near.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Sums with the bias are 1 and 5 in the first row, -4 and 2 in the second.
const OperationTensor kInput = {{2, 2}, {0, 1, -1, 2}};
const OperationTensor kSkip = {{2, 2}, {0, 2, -4, -2}};
const OperationTensor kScales = {{2}, {2, 3}};
const OperationTensor kShift = {{2}, {0.5, 0}};
const OperationTensor kBias = {{2}, {1, 2}};

TEST(SkipLayerNormalizationTest, GivesTheNormalizedSumItsMomentsAndTheSum) {
  SingleOperation operation("SkipLayerNormalization", {{"epsilon", 0.0}});
  operation.Input(kInput).Input(kSkip).Input(kScales).Input(kShift).Input(kBias);
  const auto outputs = operation.Run(4);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  // Means 3 and -1, deviations 2 and 3: every sum lies one deviation away.
  EXPECT_THAT((*outputs)[0].elements, AreNear({-1.5, 3, -1.5, 3}));
  EXPECT_THAT((*outputs)[1].elements, AreNear({3, -1}));
  EXPECT_THAT((*outputs)[2].elements, AreNear({0.5, 1.0 / 3}));
  EXPECT_THAT((*outputs)[3].elements, ElementsAre(1, 5, -4, 2));
  EXPECT_EQ((*outputs)[1].shape, (std::vector<Size>{2, 1}));
}

TEST(SkipRmsNormalizationTest, DividesByTheRootOfTheMeanSquare) {
  SingleOperation operation("SkipSimplifiedLayerNormalization", {{"epsilon", 0.0}});
  operation.Input(kInput).Input(kSkip).Input(kScales).Input(kBias);
  const auto outputs = operation.Run(4);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const double first = std::sqrt(13);   // of (1 + 25) / 2
  const double second = std::sqrt(10);  // of (16 + 4) / 2
  EXPECT_THAT((*outputs)[0].elements, AreNear({2 / first, 15 / first, -8 / second, 6 / second}));
  EXPECT_THAT((*outputs)[2].elements, AreNear({1 / first, 1 / second}));
  EXPECT_THAT((*outputs)[3].elements, ElementsAre(1, 5, -4, 2));
}

TEST(SkipLayerNormalizationTest, OneSkipServesAWholeBatch) {
  SingleOperation operation("SkipLayerNormalization", {{"epsilon", 0.0}});
  operation.Input(kInput).Input({{2}, {3, 4}}).Input({{2}, {1, 1}});
  EXPECT_THAT(operation.Elements(), AreNear({-1, 1, -1, 1}));
  SingleOperation wrong("SkipLayerNormalization");
  wrong.Input(kInput).Input({{3, 2}, {0, 0, 0, 0, 0, 0}}).Input(kScales);
  EXPECT_THAT(wrong.Shape(), HasSubstr("have to fit the first one's shape"));
}

}  // namespace
}  // namespace kiln::graph
