// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

SingleOperation Loss(const std::string& name, Attributes attributes) {
  SingleOperation loss(name, std::move(attributes));
  OperationTensor scores = Numbered({2, 3, 2});
  for (double& score : scores.elements) score /= 4;
  loss.Input(std::move(scores)).Input({{2, 2}, {0, 2, 1, 0}, DType::kI64});
  return loss;
}

std::vector<double> Weighted(const std::string& name, const std::string& reduction) {
  return Loss(name, {{"reduction", reduction}, {"ignore_index", 2}})
      .Input({{3}, {0.5, 1, 2}})
      .Elements();
}

auto AreLosses(const std::vector<double>& expected) {
  return Pointwise(DoubleNear(1e-4), expected);
}

TEST(LossTest, NegativeLogLikelihoodIsWeightedByClasses) {
  EXPECT_THAT(Weighted("NegativeLogLikelihoodLoss", "none"), AreLosses({0.625, 0, 1, 0}));
  EXPECT_THAT(Weighted("NegativeLogLikelihoodLoss", "sum"), AreLosses({1.625}));
  EXPECT_THAT(Weighted("NegativeLogLikelihoodLoss", "mean"), AreLosses({0.8125}));
}

TEST(LossTest, CrossEntropyTakesTheSoftmaxFirst) {
  EXPECT_THAT(Weighted("SoftmaxCrossEntropyLoss", "none"),
              AreLosses({1.01399, 0, 2.35195, 0.6124}));
  EXPECT_THAT(Weighted("SoftmaxCrossEntropyLoss", "sum"), AreLosses({3.97834}));
  EXPECT_THAT(Weighted("SoftmaxCrossEntropyLoss", "mean"), AreLosses({1.98917}));
}

TEST(LossTest, WithoutWeightsTheMeanIsOverAllTargets) {
  EXPECT_THAT(Loss("SoftmaxCrossEntropyLoss", {}).Elements(), AreLosses({2.01988}));
}

TEST(LossTest, TheSecondOutputHasLogarithmsOfProbabilities) {
  const auto outputs = Loss("SoftmaxCrossEntropyLoss", {}).Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[1].elements,
              AreLosses({-2.02798, -1.22481, -1.27798, -0.47481, -0.52798, -2.47481, -0.35195,
                         -1.22481, -2.35195, -0.47481, -1.60195, -2.47481}));
}

TEST(LossTest, TargetsHaveTheShapeOfScoresWithoutClasses) {
  SingleOperation loss("NegativeLogLikelihoodLoss");
  loss.Input(Numbered({2, 3})).Input({{3}, {0, 1, 2}, DType::kI64});
  EXPECT_THAT(loss.Shape(), HasSubstr("targets [3] do not fit scores [2, 3]"));
}

}  // namespace
}  // namespace kiln::graph
