#include <gtest/gtest.h>

#include "tests/unit/client/graph/operators/single_operation.h"

namespace kiln::graph::quantization_test {
namespace {

using Numbers = std::vector<double>;

TEST(QuantizationTest, RoundsToEvenAndSaturates) {
  const TestTensor x = {DType::kF32, {7}, {0, 1, 3, 5, 1000, -254, -1000}};
  const TestTensor scale = {DType::kF32, {}, {2}};
  const auto bytes = RunOperation("QuantizeLinear", {x, scale, {DType::kU8, {}, {128}}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->type, DType::kU8);
  EXPECT_EQ(bytes->numbers, Numbers({128, 128, 130, 130, 255, 1, 0}));
  const auto words = RunOperation("QuantizeLinear", {x, scale}, {{"output_dtype", "i16"}});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->numbers, Numbers({0, 0, 2, 2, 500, -127, -500}));
}

TEST(QuantizationTest, ScalesBelongToAnAxisOrToBlocks) {
  const TestTensor x = {DType::kI8, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const TestTensor zero = {DType::kI8, {2}, {0, 4}};
  const auto rows = RunOperation("DequantizeLinear", {x, {DType::kF32, {2}, {2, 10}}, zero},
                                 {{"axis", int64_t{0}}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->numbers, Numbers({2, 4, 6, 8, 10, 20, 30, 40}));
  const TestTensor blocks = {DType::kF16, {2, 2}, {1, 2, 3, 4}};
  const auto halves = RunOperation("DequantizeLinear", {x, blocks}, {{"block_size", int64_t{2}}});
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_EQ(halves->type, DType::kF16);
  EXPECT_EQ(halves->numbers, Numbers({1, 2, 6, 8, 15, 18, 28, 32}));
}

TEST(QuantizationTest, TwoNumbersOfFourBitsAreInAByte) {
  const TestTensor x = {DType::kF32, {2, 4}, {-20, -6, 0, 14, 2, 4, -2, 100}};
  const TestTensor scale = {DType::kF32, {}, {2}};
  const auto quantized = RunOperation("QuantizeLinear", {x, scale}, {{"output_dtype", "i4"}});
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  EXPECT_EQ(quantized->numbers, Numbers({-8, -3, 0, 7, 1, 2, -1, 7}));
  const auto back = RunOperation("DequantizeLinear", {*quantized, scale});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->numbers, Numbers({-16, -6, 0, 14, 2, 4, -2, 14}));
}

TEST(QuantizationTest, TheLastByteOfAnOddNumberIsHalfFull) {
  const TestTensor x = {DType::kF32, {3, 3}, {-1, 2, 3, 4, 5, 16, 17, 8, 31}};
  const auto low = RunOperation("Cast", {x}, {{"to", "u4"}});
  ASSERT_TRUE(low.ok()) << low.status();
  EXPECT_EQ(low->numbers, Numbers({15, 2, 3, 4, 5, 0, 1, 8, 15, 0}));
  const auto columns = RunOperation("Transpose", {{DType::kU4, {3, 3}, low->numbers}});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(columns->numbers, Numbers({15, 4, 1, 2, 5, 8, 3, 0, 15, 0}));
  const auto inverse = RunOperation("BitwiseNot", {{DType::kU4, {3, 3}, low->numbers}});
  ASSERT_TRUE(inverse.ok()) << inverse.status();
  EXPECT_EQ(inverse->numbers, Numbers({0, 13, 12, 11, 10, 15, 14, 7, 0, 0}));
}

TEST(QuantizationTest, ProductsOfQuantizedMatricesAreQuantized) {
  const TestTensor a = {DType::kU8, {2, 2}, {130, 128, 126, 255}};
  const TestTensor b = {DType::kI8, {2, 2}, {1, -2, 3, 4}};
  const TestTensor zero = {DType::kU8, {}, {128}};
  const TestTensor none = {DType::kI8, {}, {0}};
  const auto scale = [](double number) { return TestTensor{DType::kF32, {}, {number}}; };
  const TestTensor of_columns = {DType::kF32, {2}, {2, 4}};
  const auto product =
      RunOperation("QLinearMatMul", {a, scale(0.5), zero, b, of_columns, none, scale(2), zero});
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->type, DType::kU8);
  // Sums are 2, -4, 379 and 512; they are multiplied by 0.5 and 1.
  EXPECT_EQ(product->numbers, Numbers({129, 124, 255, 255}));
}

TEST(QuantizationTest, ConvolutionsOfQuantizedImagesAreQuantized) {
  const TestTensor x = {DType::kU8, {1, 1, 3}, {10, 12, 14}};
  const TestTensor weight = {DType::kI8, {2, 1, 2}, {1, 1, 1, -1}};
  const TestTensor zero = {DType::kU8, {}, {10}};
  const TestTensor none = {DType::kI8, {2}, {0, 0}};
  const TestTensor one = {DType::kF32, {}, {1}};
  const TestTensor bias = {DType::kI32, {2}, {0, 3}};
  const auto y = RunOperation("QLinearConv", {x,
                                              one,
                                              zero,
                                              weight,
                                              {DType::kF32, {2}, {1, 0.5}},
                                              none,
                                              one,
                                              {DType::kU8, {}, {100}},
                                              bias});
  ASSERT_TRUE(y.ok()) << y.status();
  // Sums are 2 and 6; -2 + 3 and -2 + 3, half of which is rounded to even.
  EXPECT_EQ(y->numbers, Numbers({102, 106, 100, 100}));
}

TEST(QuantizationTest, MistakesAreNamed) {
  const TestTensor x = {DType::kI8, {2}, {1, 2}};
  const auto axis = RunOperation("DequantizeLinear", {x, {DType::kF32, {2}, {1, 1}}});
  EXPECT_EQ(axis.status().message(), "DequantizeLinear: there is no axis 1");
  EXPECT_FALSE(RunOperation("QuantizeLinear", {x, {DType::kI8, {}, {1}}}).ok());
}

}  // namespace
}  // namespace kiln::graph::quantization_test
