#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/client/graph/operators/single_operation.h"

namespace kiln::graph::constants_test {
namespace {

using Numbers = std::vector<double>;

TestTensor Given(DType type, Numbers numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  return {type, {count}, std::move(numbers), true};
}

TestTensor Scalar(DType type, double number) { return {type, {}, {number}, true}; }

TEST(ConstantsTest, ConstantOfShapeIsFilledWithItsValue) {
  const auto zeros = RunOperation("ConstantOfShape", {Given(DType::kI64, {2, 3})});
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_EQ(zeros->type, DType::kF32);
  EXPECT_EQ(zeros->shape, std::vector<int64_t>({2, 3}));
  EXPECT_EQ(zeros->numbers, Numbers(6, 0));
  const auto sevens = RunOperation("ConstantOfShape", {Given(DType::kI64, {2})},
                                   {{"value", int64_t{7}}, {"dtype", "int32"}});
  ASSERT_TRUE(sevens.ok()) << sevens.status();
  EXPECT_EQ(sevens->type, DType::kI32);
  EXPECT_EQ(sevens->numbers, Numbers({7, 7}));
  EXPECT_EQ(RunOperation("ConstantOfShape", {Given(DType::kI64, {-2})}).status().message(),
            "ConstantOfShape: a dimension is negative, or too large");
  for (const double extent : {1e30, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(RunOperation("ConstantOfShape", {Given(DType::kF32, {extent})}).status().message(),
              "ConstantOfShape: a dimension is negative, or too large");
  }
}

TEST(ConstantsTest, FillReadsItsNumber) {
  const auto filled = RunOperation("Fill", {Given(DType::kI32, {3}), {DType::kF16, {}, {1.5}}});
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(filled->numbers, Numbers({1.5, 1.5, 1.5}));
}

TEST(ConstantsTest, TensorsLikeOthersHaveTheirShapeAndType) {
  const TestTensor like = {DType::kF16, {1, 2}, {5, 6}};
  EXPECT_EQ(RunOperation("zeros_like", {like})->numbers, Numbers({0, 0}));
  const auto ones = RunOperation("OnesLike", {like}, {{"dtype", "bool"}});
  ASSERT_TRUE(ones.ok()) << ones.status();
  EXPECT_EQ(ones->type, DType::kBool);
  EXPECT_EQ(ones->numbers, Numbers({1, 1}));
}

TEST(ConstantsTest, EyeLikeHasOnesOnTheDiagonalThatKSays) {
  const TestTensor like = {DType::kF32, {2, 3}, Numbers(6, 9)};
  EXPECT_EQ(RunOperation("EyeLike", {like})->numbers, Numbers({1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(RunOperation("EyeLike", {like}, {{"k", int64_t{1}}})->numbers,
            Numbers({0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(RunOperation("EyeLike", {like}, {{"k", int64_t{-1}}})->numbers,
            Numbers({0, 0, 0, 1, 0, 0}));
  EXPECT_FALSE(RunOperation("EyeLike", {{DType::kF32, {2}, {1, 2}}}).ok());
}

TEST(ConstantsTest, RangeCountsUpAndDownToItsLimit) {
  const DType f = DType::kF32;
  EXPECT_EQ(RunOperation("Range", {Scalar(f, 1), Scalar(f, 2), Scalar(f, 0.25)})->numbers,
            Numbers({1, 1.25, 1.5, 1.75}));
  const DType i = DType::kI32;
  EXPECT_EQ(RunOperation("Range", {Scalar(i, 10), Scalar(i, 3), Scalar(i, -3)})->numbers,
            Numbers({10, 7, 4}));
  EXPECT_EQ(RunOperation("Range", {Scalar(i, 3), Scalar(i, 1), Scalar(i, 1)})->numbers, Numbers());
  EXPECT_FALSE(RunOperation("Range", {Scalar(i, 3), Scalar(i, 1), Scalar(i, 0)}).ok());
}

TEST(ConstantsTest, ConstantIsItsAttribute) {
  const auto list = RunOperation("Constant", {}, {{"value_ints", std::vector<int64_t>{3, 1, 2}}});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->type, DType::kI64);
  EXPECT_EQ(list->numbers, Numbers({3, 1, 2}));
  const auto number = RunOperation("Constant", {}, {{"value_float", 2.5}});
  ASSERT_TRUE(number.ok()) << number.status();
  EXPECT_TRUE(number->shape.empty());
  EXPECT_EQ(number->numbers, Numbers({2.5}));
}

}  // namespace
}  // namespace kiln::graph::constants_test
