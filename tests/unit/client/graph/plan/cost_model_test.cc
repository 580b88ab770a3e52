#include "client/graph/plan/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/graph/plan/plan.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string ExplanationOf(const Segment& segment, CostModel model = {},
                          bool multiplies_tiles = true) {
  const Plan plan =
      MakePlan(segment,
               {.keeps_small_sections = true, .multiplies_tiles = multiplies_tiles, .model = model})
          .value();
  return Explain(segment, plan);
}

// [4096, 1024] times [1024, columns], the left factor computed by `op`.
std::string ProductAfter(const std::string& op, int64_t columns, bool multiplies_tiles,
                         DType type = DType::kF32) {
  SegmentMaker maker;
  const int x = maker.Add(op, {maker.Input({4096, 1024}, type)});
  maker.Output(maker.Add("MatMul", {x, maker.Input({1024, columns}, type)}));
  return ExplanationOf(maker.segment(), {}, multiplies_tiles);
}

TEST(CostModelTest, WhatIsCheapIsComputedAgainForEachColumnAndWhatIsNotIsInMemory) {
  EXPECT_THAT(ProductAfter("Neg", 60, false), HasSubstr("fused: Neg (0) into MatMul (1)"));
  EXPECT_THAT(
      ProductAfter("Tanh", 60, false),
      AllOf(HasSubstr("apart: Tanh (0) into MatMul (1): score -"), HasSubstr(", work -894.4 MB")));
}

TEST(CostModelTest, NothingIsComputedAgainForEachOfManyColumns) {
  EXPECT_THAT(ProductAfter("Tanh", 4096, false),
              HasSubstr("apart: Tanh (0) into MatMul (1): would compute each element 4096 times"));
}

TEST(CostModelTest, ATileComputesItsFactorsOnce) {
  EXPECT_THAT(ProductAfter("Neg", 60, true),
              HasSubstr("fused: Neg (0) into MatMul (1): score 31.8 MB: 16.8 MB between them, "
                        "read 1 times, work -9.7 MB"));
  EXPECT_THAT(
      ProductAfter("Neg", 4096, true),
      AllOf(HasSubstr("apart: Neg (0) into MatMul (1): score -"), HasSubstr("read 32 times")));
  EXPECT_THAT(ProductAfter("Neg", 60, true, DType::kF64), HasSubstr("read 60 times"))
      << "no matrix unit takes f64";
}

TEST(CostModelTest, AFunctionOfAFactorCostsTheFirstTime) {
  EXPECT_THAT(ProductAfter("Tanh", 60, true, DType::kF16),
              AllOf(HasSubstr("apart: Tanh (0) into MatMul (1): score -"),
                    HasSubstr("read 1 times, work -72.8 MB")));
}

TEST(CostModelTest, ARightFactorGoesThroughSharedMemory) {
  const auto product = [](bool is_left) {
    SegmentMaker maker;
    std::vector<int> factors = {maker.Input({4096, 4096}, DType::kF16),
                                maker.Input({4096, 1024}, DType::kF16)};
    int& computed = factors[is_left ? 0 : 1];
    computed = maker.Add("Relu", {computed});
    maker.Output(maker.Add("MatMul", factors));
    return ExplanationOf(maker.segment());
  };
  EXPECT_THAT(product(true), HasSubstr("fused: Relu (0) into MatMul (1)"));
  EXPECT_THAT(product(false), HasSubstr("apart: Relu (0) into MatMul (1)"));
}

// Rows of so many f16 that a function computes, then a softmax.
std::string SoftmaxOfFunction(int64_t columns, bool multiplies_tiles) {
  SegmentMaker maker;
  const int x = maker.Add("Tanh", {maker.Input({4096, columns}, DType::kF16)});
  maker.Output(maker.Add("Softmax", {x}));
  return ExplanationOf(maker.segment(), {}, multiplies_tiles);
}

TEST(CostModelTest, ABlockComputesTheElementsOfItsRowsOnce) {
  EXPECT_THAT(SoftmaxOfFunction(4096, true), HasSubstr("read 1 times"));
  EXPECT_THAT(SoftmaxOfFunction(4097, true), HasSubstr("read 3 times"));
  EXPECT_THAT(SoftmaxOfFunction(4096, false), HasSubstr("read 3 times"));
}

TEST(CostModelTest, AWindowsElementsAreComputedForEachOfItsPlaces) {
  SegmentMaker maker;
  const int x = maker.Add("Tanh", {maker.Input({8, 64, 34, 34})});
  maker.Output(maker.Add("Conv", {x, maker.Input({256, 64, 3, 3})}));
  EXPECT_THAT(ExplanationOf(maker.segment()), HasSubstr("read 16 times"));  // 2 tiles, 9 places
}

TEST(CostModelTest, AChannelsFilterComputesItsElementsForEachOfItsPlaces) {
  SegmentMaker maker;
  const int x = maker.Add("Tanh", {maker.Input({8, 128, 34, 34})});
  maker.Output(maker.Add("Conv", {x, maker.Input({128, 1, 3, 3})}, {{"group", int64_t{128}}}));
  EXPECT_THAT(ExplanationOf(maker.segment()), HasSubstr("read 8 times"));  // 9 places but for edges
}

TEST(CostModelTest, AProductsGridIsThatOfItsResult) {
  SegmentMaker maker;
  const int x = maker.Input({64, 64});
  maker.Output(maker.Add("Add", {maker.Add("MatMul", {x, x}), maker.Input({8, 64, 64})}));
  EXPECT_THAT(ExplanationOf(maker.segment()),
              HasSubstr("apart: MatMul (0) into Add (1): the consumer does not read each element "
                        "once, in order"));
}

// The sum of so many matrices, transposed.
std::string TransposeOfSum(size_t matrices, int64_t rows) {
  SegmentMaker maker;
  std::vector<int> inputs;
  for (size_t i = 0; i < matrices; ++i) inputs.push_back(maker.Input({rows, 4096}));
  const int sum = maker.Add("Sum", std::move(inputs));
  maker.Output(maker.Add("Relu", {maker.Add("Transpose", {sum})}));
  return ExplanationOf(maker.segment());
}

TEST(CostModelTest, LoadsAcrossRowsAreMadeOnce) {
  EXPECT_THAT(TransposeOfSum(1, 4096), HasSubstr("fused: Sum (0) into Transpose (1)"));
  EXPECT_THAT(TransposeOfSum(2, 4096),
              AllOf(HasSubstr("apart: Sum (0) into Transpose (1)"), HasSubstr(", grid -419.4 MB")));
  EXPECT_THAT(TransposeOfSum(2, 64), HasSubstr("fused: Sum (0) into Transpose (1)"))
      << "a launch costs more than so few elements";
}

// A product to which so many matrices of its size are added, one after the other.
std::string SumsBehindProduct(int matrices, std::vector<Size> shape) {
  SegmentMaker maker;
  const std::vector<Size> square = {4096, 4096};
  int sum =
      maker.Add("MatMul", {maker.Input(square, DType::kF16), maker.Input(square, DType::kF16)});
  for (int i = 0; i < matrices; ++i) sum = maker.Add("Add", {sum, maker.Input(shape, DType::kF16)});
  maker.Output(sum);
  return ExplanationOf(maker.segment());
}

TEST(CostModelTest, AProductsTileHasRegistersForFewOperandsOfItsSize) {
  const std::string six = SumsBehindProduct(6, {4096, 4096});
  EXPECT_THAT(six, HasSubstr("fused: Add (3) into Add (4)"));
  EXPECT_THAT(six, AllOf(HasSubstr("apart: Add (4) into Add (5): score -28.9 MB"),
                         HasSubstr(", registers -104.0 MB")));
  EXPECT_THAT(SumsBehindProduct(6, {4096}), Not(HasSubstr("apart"))) << "rows are small";
}

TEST(CostModelTest, AChainWithoutATileHasRegistersForAllOperands) {
  SegmentMaker maker;
  int sum = maker.Add("Softmax", {maker.Input({4096, 4096})});
  for (int i = 0; i < 16; ++i) sum = maker.Add("Add", {sum, maker.Input({4096, 4096})});
  maker.Output(sum);
  EXPECT_THAT(ExplanationOf(maker.segment()), Not(HasSubstr("apart")));
}

// 16 rows times weights that are the sum of so many matrices.
std::string ProductOfSum(size_t matrices) {
  SegmentMaker maker;
  std::vector<int> inputs;
  for (size_t i = 0; i < matrices; ++i) inputs.push_back(maker.Input({4096, 4096}, DType::kF16));
  const int x = maker.Input({16, 4096}, DType::kF16);
  maker.Output(maker.Add("MatMul", {x, maker.Add("Sum", std::move(inputs))}));
  return ExplanationOf(maker.segment());
}

TEST(CostModelTest, AProductsTilesHaveSharedMemoryForFewValuesOfAFactor) {
  EXPECT_THAT(ProductOfSum(2), HasSubstr("fused: Sum (0) into MatMul (1)"));
  EXPECT_THAT(ProductOfSum(3), HasSubstr("apart: Sum (0) into MatMul (1): shared memory: tiles "
                                         "would be 3.0 times as large, 2.5 fit"));
}

TEST(CostModelTest, TheCallersConstantsDecide) {
  SegmentMaker maker;
  const int x = maker.Add("Tanh", {maker.Input({4096, 1024})});
  maker.Output(maker.Add("MatMul", {x, maker.Input({1024, 60})}));
  EXPECT_THAT(ExplanationOf(maker.segment(), {.special_function_cost = 1}, false),
              HasSubstr("fused: Tanh (0) into MatMul (1)"));
}

}  // namespace
}  // namespace kiln::graph
