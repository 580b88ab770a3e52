#include <gmock/gmock.h>

#include <cmath>

#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

MATCHER(IsNear, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

const OperationTensor kNumbers = {{2, 3}, {1, 2, 3, 4, 5, -6}};

std::vector<double> ReducedRows(const std::string& name) {
  return SingleOperation(name, {{"axes", std::vector<int64_t>{1}}, {"keepdims", 0}})
      .Input(kNumbers)
      .Elements();
}

TEST(ReductionTest, EachReductionReducesRows) {
  EXPECT_THAT(ReducedRows("ReduceSum"), ElementsAre(6, 3));
  EXPECT_THAT(ReducedRows("ReduceMean"), ElementsAre(2, 1));
  EXPECT_THAT(ReducedRows("ReduceMax"), ElementsAre(3, 5));
  EXPECT_THAT(ReducedRows("ReduceMin"), ElementsAre(1, -6));
  EXPECT_THAT(ReducedRows("ReduceProd"), ElementsAre(6, -120));
  EXPECT_THAT(ReducedRows("ReduceL1"), ElementsAre(6, 15));
  EXPECT_THAT(ReducedRows("ReduceSumSquare"), ElementsAre(14, 77));
  EXPECT_THAT(ReducedRows("ReduceL2"),
              Pointwise(IsNear(), std::vector<double>{std::sqrt(14), std::sqrt(77)}));
  EXPECT_THAT(ReducedRows("ReduceLogSum"),
              Pointwise(IsNear(), std::vector<double>{std::log(6), std::log(3)}));
}

TEST(ReductionTest, LogSumExpOfLargeNumbersDoesNotOverflow) {
  EXPECT_THAT(SingleOperation("ReduceLogSumExp").Input({{2}, {1000, 1000}}).Elements(),
              ElementsAre(DoubleNear(1000 + std::log(2), 1e-3)));
}

TEST(ReductionTest, AxesOfAnInputAndKeptDimensions) {
  SingleOperation sum("ReduceSum");
  sum.Input(kNumbers).Input(KnownInts({-2}));
  EXPECT_EQ(sum.Shape(), "[1, 3]");
  EXPECT_THAT(sum.Elements(), ElementsAre(5, 7, -3));
}

TEST(ReductionTest, NoAxesReduceAllOrNothing) {
  EXPECT_EQ(SingleOperation("ReduceSum").Input(kNumbers).Shape(), "[1, 1]");
  EXPECT_EQ(SingleOperation("ReduceSum", {{"noop_with_empty_axes", 1}}).Input(kNumbers).Shape(),
            "[2, 3]");
}

TEST(ReductionTest, EmptyReductionsAreIdentities) {
  const OperationTensor nothing = {{2, 0}, {}};
  const auto reduced = [&](const std::string& name) {
    return SingleOperation(name, {{"axes", std::vector<int64_t>{1}}}).Input(nothing).Elements();
  };
  EXPECT_THAT(reduced("ReduceSum"), ElementsAre(0, 0));
  EXPECT_THAT(reduced("ReduceProd"), ElementsAre(1, 1));
  EXPECT_THAT(reduced("ReduceMax"), ElementsAre(-INFINITY, -INFINITY));
}

TEST(ReductionTest, ExtremesOfBoolsAreBools) {
  const OperationTensor x = {{2, 2}, {1, 0, 1, 1}, DType::kBool};
  const Attributes rows = {{"axes", std::vector<int64_t>{1}}};
  EXPECT_THAT(SingleOperation("ReduceMin", rows).Input(x).Elements(), ElementsAre(0, 1));
  EXPECT_THAT(SingleOperation("ReduceMax", rows).Input(x).Elements(), ElementsAre(1, 1));
  const OperationTensor nothing = {{1, 0}, {}, DType::kBool};
  EXPECT_THAT(SingleOperation("ReduceMax", rows).Input(nothing).Elements(), ElementsAre(0));
  EXPECT_THAT(SingleOperation("ReduceMin", rows).Input(nothing).Elements(), ElementsAre(1));
}

TEST(ReductionTest, SumOfHalvesIsAccumulatedInSingle) {
  const OperationTensor halves = {{3}, {2048, 1, 1}, DType::kF16};
  EXPECT_THAT(SingleOperation("ReduceSum").Input(halves).Elements(), ElementsAre(2050));
}

TEST(ReductionTest, ArgMaxTakesTheFirstOrTheLastOfEqualOnes) {
  const OperationTensor x = {{4}, {1, 7, 7, 0}};
  EXPECT_THAT(SingleOperation("ArgMax").Input(x).Elements(), ElementsAre(1));
  EXPECT_THAT(SingleOperation("ArgMax", {{"select_last_index", 1}}).Input(x).Elements(),
              ElementsAre(2));
  EXPECT_THAT(SingleOperation("ArgMin").Input(x).Elements(), ElementsAre(3));
}

TEST(ReductionTest, CumulativeSumIsExclusiveAndReversed) {
  const auto sums = [](int64_t exclusive, int64_t reverse) {
    return SingleOperation("CumSum", {{"exclusive", exclusive}, {"reverse", reverse}})
        .Input({{3}, {1, 2, 3}})
        .Input(KnownInts({0}))
        .Elements();
  };
  EXPECT_THAT(sums(0, 0), ElementsAre(1, 3, 6));
  EXPECT_THAT(sums(1, 0), ElementsAre(0, 1, 3));
  EXPECT_THAT(sums(0, 1), ElementsAre(6, 5, 3));
  EXPECT_THAT(sums(1, 1), ElementsAre(5, 3, 0));
}

TEST(ReductionTest, AxisOutOfRangeNamesTheOperation) {
  EXPECT_THAT(
      SingleOperation("ReduceSum", {{"axes", std::vector<int64_t>{2}}}).Input(kNumbers).Shape(),
      HasSubstr("ReduceSum: axis 2"));
}

TEST(NormalizationTest, SoftmaxOfLargeNumbersIsStable) {
  const double e = std::exp(1);
  EXPECT_THAT(SingleOperation("Softmax").Input({{1, 2}, {1000, 1001}}).Elements(),
              Pointwise(IsNear(), std::vector<double>{1 / (1 + e), e / (1 + e)}));
  EXPECT_THAT(SingleOperation("LogSoftmax").Input({{1, 2}, {0, 1}}).Elements(),
              Pointwise(IsNear(), std::vector<double>{-std::log(1 + e), 1 - std::log(1 + e)}));
}

TEST(NormalizationTest, SoftmaxAlongTheFirstAxis) {
  EXPECT_THAT(SingleOperation("Softmax", {{"axis", 0}}).Input({{2, 2}, {0, 5, 0, 5}}).Elements(),
              ElementsAre(0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(SingleOperation("Hardmax").Input(kNumbers).Elements(), ElementsAre(0, 0, 1, 0, 1, 0));
}

TEST(NormalizationTest, LayerNormalizationGivesMeanAndInverseDeviation) {
  const auto outputs = SingleOperation("LayerNormalization", {{"epsilon", 0.0}})
                           .Input({{2, 2}, {1, 3, -2, 2}})
                           .Input({{2}, {10, 20}})
                           .Input({{2}, {1, 2}})
                           .Run(3);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, Pointwise(IsNear(), std::vector<double>{-9, 22, -9, 22}));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(2, 0));
  EXPECT_THAT((*outputs)[2].elements, Pointwise(IsNear(), std::vector<double>{1, 0.5}));
}

TEST(NormalizationTest, RmsNormalizationDividesByTheRootMeanSquare) {
  EXPECT_THAT(SingleOperation("RMSNormalization", {{"epsilon", 0.0}})
                  .Input({{1, 2}, {7, 1}})
                  .Input({{2}, {1, 10}})
                  .Elements(),
              Pointwise(IsNear(), std::vector<double>{1.4, 2}));
}

TEST(NormalizationTest, ChannelsAreNormalizedAloneInGroupsOrByGivenMoments) {
  const OperationTensor x = {{1, 2, 2}, {1, 3, 5, 9}};
  const OperationTensor one = {{2}, {1, 1}};
  const OperationTensor zero = {{2}, {0, 0}};
  EXPECT_THAT(SingleOperation("InstanceNormalization", {{"epsilon", 0.0}})
                  .Input(x)
                  .Input(one)
                  .Input(zero)
                  .Elements(),
              Pointwise(IsNear(), std::vector<double>{-1, 1, -1, 1}));
  EXPECT_THAT(SingleOperation("GroupNormalization", {{"epsilon", 0.0}, {"num_groups", 2}})
                  .Input(x)
                  .Input(one)
                  .Input(zero)
                  .Elements(),
              Pointwise(IsNear(), std::vector<double>{-1, 1, -1, 1}));
  EXPECT_THAT(SingleOperation("BatchNormalization", {{"epsilon", 0.0}})
                  .Input(x)
                  .Input(one)
                  .Input(zero)
                  .Input({{2}, {1, 5}})
                  .Input({{2}, {4, 16}})
                  .Elements(),
              Pointwise(IsNear(), std::vector<double>{0, 1, 0, 1}));
}

TEST(NormalizationTest, LrnTakesNeighbouringChannels) {
  EXPECT_THAT(SingleOperation("LRN", {{"size", 3}, {"alpha", 3.0}, {"beta", 1.0}})
                  .Input({{1, 3, 1}, {1, 2, 3}})
                  .Elements(),
              Pointwise(IsNear(), std::vector<double>{1.0 / 6, 2.0 / 15, 3.0 / 14}));
}

TEST(ProductTest, MatMulBroadcastsBatchesAndTakesLists) {
  EXPECT_THAT(SingleOperation("MatMul")
                  .Input({{2, 1, 2}, {1, 2, 3, 4}})
                  .Input({{2, 2}, {1, 0, 0, 10}})
                  .Elements(),
              ElementsAre(1, 20, 3, 40));
  EXPECT_THAT(SingleOperation("MatMul").Input({{2}, {1, 2}}).Input({{2}, {3, 4}}).Elements(),
              ElementsAre(11));
  EXPECT_THAT(
      SingleOperation("MatMul").Input({{2}, {1, 2}}).Input({{2, 2}, {1, 2, 3, 4}}).Elements(),
      ElementsAre(7, 10));
  EXPECT_THAT(SingleOperation("MatMul").Input(kNumbers).Input(kNumbers).Shape(),
              HasSubstr("MatMul: [2, 3] and [2, 3] do not fit"));
}

TEST(ProductTest, GemmTransposesScalesAndAdds) {
  EXPECT_THAT(SingleOperation("Gemm", {{"transA", 1}, {"alpha", 2.0}, {"beta", 3.0}})
                  .Input({{2, 2}, {1, 2, 3, 4}})
                  .Input({{2, 1}, {1, 1}})
                  .Input({{1}, {5}})
                  .Elements(),
              ElementsAre(23, 27));
}

TEST(ProductTest, LinearTakesAWeightOfRows) {
  EXPECT_THAT(SingleOperation("Linear")
                  .Input({{1, 2}, {1, 2}})
                  .Input({{2, 2}, {1, 1, 0, 3}})
                  .Input({{2}, {10, 20}})
                  .Elements(),
              ElementsAre(13, 26));
}

TEST(ProductTest, MatMulIntegerTakesZeroPoints) {
  EXPECT_THAT(SingleOperation("MatMulInteger")
                  .Input({{1, 2}, {200, 100}, DType::kU8})
                  .Input({{2, 2}, {3, 4, 5, 6}, DType::kU8})
                  .Input({{}, {100}, DType::kU8})
                  .Input({{2}, {1, 2}, DType::kU8})
                  .Elements(),
              ElementsAre(200, 200));
}

}  // namespace
}  // namespace kiln::graph
