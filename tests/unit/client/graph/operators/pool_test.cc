// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

OperationTensor Times12(OperationTensor tensor) {
  for (double& element : tensor.elements) element *= 12;
  return tensor;
}

TEST(PoolTest, MaxPoolGivesPlacesInTheWholeInput) {
  SingleOperation pool("MaxPool",
                       {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}});
  pool.Input(Numbered({1, 2, 6}));
  const auto outputs = pool.Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, ElementsAre(2, 5, 5, 4, 3, 3));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(1, 3, 3, 6, 9, 9));
}

TEST(PoolTest, StorageOrderOneCountsColumnsFirst) {
  SingleOperation pool(
      "MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"storage_order", 1}});
  pool.Input(Numbered({1, 1, 4, 5}));
  const auto outputs = pool.Run(2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements, ElementsAre(4, 5, 1, 4));
  EXPECT_THAT((*outputs)[1].elements, ElementsAre(5, 12, 3, 11));
}

TEST(PoolTest, MaxPoolWithDilations) {
  SingleOperation pool("MaxPool", {{"kernel_shape", Ints{3}}, {"dilations", Ints{2}}});
  EXPECT_THAT(pool.Input(Numbered({1, 1, 7})).Elements(), ElementsAre(1, 5, 4));
}

TEST(PoolTest, CeilModeLetsTheLastWindowReachBeyondTheInput) {
  SingleOperation pool("MaxPool",
                       {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", 1}});
  pool.Input(Numbered({1, 1, 4, 4}));
  EXPECT_EQ(pool.Shape(), "[1, 1, 2, 2]");
  EXPECT_THAT(pool.Elements(), ElementsAre(4, 5, 5, 5));
}

TEST(PoolTest, CeilModeLeavesOutAWindowThatBeginsInThePadding) {
  const Attributes attributes = {
      {"kernel_shape", Ints{1}}, {"strides", Ints{2}}, {"ceil_mode", 1}, {"pads", Ints{0, 1}}};
  EXPECT_EQ(SingleOperation("MaxPool", attributes).Input(Numbered({1, 1, 4})).Shape(), "[1, 1, 2]");
}

TEST(PoolTest, PaddingIsNeverTheMaximumOfNegativeIntegers) {
  const Attributes attributes = {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}};
  const OperationTensor bytes = {{1, 1, 3}, {-128, -7, -9}, DType::kI8};
  EXPECT_THAT(SingleOperation("MaxPool", attributes).Input(bytes).Elements(),
              ElementsAre(-128, -7, -7, -9));
}

std::vector<double> Averages(int64_t counts_padding, int64_t is_ceiling) {
  return SingleOperation("AveragePool", {{"kernel_shape", Ints{3}},
                                         {"strides", Ints{2}},
                                         {"pads", Ints{1, 1}},
                                         {"count_include_pad", counts_padding},
                                         {"ceil_mode", is_ceiling}})
      .Input(Times12(Numbered({1, 1, 6})))
      .Elements();
}

TEST(PoolTest, PaddingCountsInAnAverageWhereItIsAskedFor) {
  EXPECT_THAT(Averages(0, 0), ElementsAre(-18, 20, 12));
  EXPECT_THAT(Averages(1, 0), ElementsAre(-12, 20, 12));
}

TEST(PoolTest, WhatCeilModeAddsBeyondThePaddingNeverCounts) {
  EXPECT_THAT(Averages(0, 1), ElementsAre(-18, 20, 12, -36));
  EXPECT_THAT(Averages(1, 1), ElementsAre(-12, 20, 12, -18));
}

TEST(PoolTest, AveragesInTwoDimensions) {
  const auto averages = [](int64_t counts_padding) {
    return SingleOperation("AveragePool", {{"kernel_shape", Ints{2, 2}},
                                           {"strides", Ints{2, 3}},
                                           {"pads", Ints{0, 1, 0, 0}},
                                           {"ceil_mode", 1},
                                           {"count_include_pad", counts_padding}})
        .Input(Times12(Numbered({1, 1, 3, 4})))
        .Elements();
  };
  EXPECT_THAT(averages(0), ElementsAre(-24, 21, -48, -36));
  EXPECT_THAT(averages(1), ElementsAre(-12, 21, -24, -36));
}

TEST(PoolTest, LpPoolTakesTheNormOfAWindow) {
  const auto norms = [](int64_t p) {
    return SingleOperation("LpPool", {{"kernel_shape", Ints{2}}, {"p", p}})
        .Input(Numbered({1, 1, 3}))
        .Elements();
  };
  EXPECT_THAT(norms(1), ElementsAre(7, 4));
  EXPECT_THAT(norms(2), ElementsAre(DoubleNear(std::sqrt(29), 1e-5), DoubleNear(2.82843, 1e-5)));
  EXPECT_THAT(norms(3), ElementsAre(DoubleNear(5.10447, 1e-5), DoubleNear(2.51984, 1e-5)));
}

TEST(PoolTest, GlobalPoolsLeaveOneElementOfEachChannel) {
  const OperationTensor x = {{1, 2, 2, 2}, {1, 2, 3, 6, -1, -1, -2, 0}};
  EXPECT_EQ(SingleOperation("GlobalAveragePool").Input(x).Shape(), "[1, 2, 1, 1]");
  EXPECT_THAT(SingleOperation("GlobalAveragePool").Input(x).Elements(), ElementsAre(3, -1));
  EXPECT_THAT(SingleOperation("GlobalMaxPool").Input(x).Elements(), ElementsAre(6, 0));
  EXPECT_THAT(SingleOperation("GlobalLpPool", {{"p", 1}}).Input(x).Elements(), ElementsAre(12, 4));
}

TEST(PoolTest, AStrideOverAnUnknownSizeIsNotLowered) {
  SingleOperation pool("MaxPool", {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  pool.Symbols({{.name = "h", .min = 1, .max = 8, .typical = 8, .multiple_of = 1}}, {4});
  EXPECT_THAT(pool.Input({{1, 1, Size::Of(0)}, {1, 2, 3, 4}}).Shape(),
              HasSubstr("stride 2 over [h], which is known at run time"));
}

}  // namespace
}  // namespace kiln::graph
