// Products and attention in tiles. What they compute is tested under Triton.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/graph/emit/triton/tile_sizes.h"
#include "client/graph/emit/triton/triton_emitter.h"
#include "client/graph/plan/plan.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const EmitOptions kHopper{.backend = "cuda", .architecture = "90"};

// The only kernel of a segment.
absl::StatusOr<EmittedKernel> KernelOf(const SegmentMaker& maker, const EmitOptions& options) {
  const absl::StatusOr<Plan> plan = MakePlan(maker.segment(), {.keeps_small_sections = true});
  if (!plan.ok()) return plan.status();
  EXPECT_EQ(plan->sections.size(), 1U);
  const auto programs = LowerSection(maker.segment(), plan->sections.at(0));
  if (!programs.ok()) return programs.status();
  return EmitTriton(programs->at(0), options);
}

std::string TextOf(const SegmentMaker& maker, const EmitOptions& options) {
  const absl::StatusOr<EmittedKernel> kernel = KernelOf(maker, options);
  return kernel.ok() ? kernel->text : kernel.status().ToString();
}

SegmentMaker Product(DType type, const Size& rows, int64_t depth, int64_t columns) {
  SegmentMaker maker;
  const int a = maker.Input({rows, depth}, type);
  const int b = maker.Input({depth, columns}, type);
  maker.Output(maker.Add("MatMul", {a, b}));
  return maker;
}

TEST(TilesTest, LargeProductIsMultipliedInLargeTiles) {
  const auto kernel = KernelOf(Product(DType::kF16, 4096, 4096, 4096), kHopper);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(kernel->text,
              HasSubstr(": tensor<128x64xf16> * tensor<64x256xf16> -> tensor<128x256xf32>\n"));
  EXPECT_THAT(kernel->text, HasSubstr("} {tt.num_stages = 3 : i32}"));
  EXPECT_EQ(kernel->threads, 256);
  ASSERT_EQ(kernel->grid.size(), 3U);
  EXPECT_EQ(kernel->grid[0].tile, 128);
  EXPECT_EQ(kernel->grid[1].tile, 256);
}

TEST(TilesTest, MasksStandWhereATileMayEndBehindTheLastPosition) {
  EXPECT_THAT(TextOf(Product(DType::kF16, 4096, 4096, 4096), kHopper), Not(HasSubstr("slt")));
  EXPECT_THAT(TextOf(Product(DType::kF16, 4096, 4095, 4096), kHopper), HasSubstr("slt"));
  SegmentMaker maker;
  maker.segment().symbols.push_back({"rows", 128, 1 << 20, 4096, 128});
  const int a = maker.Input({Size::Of(0), 4096}, DType::kF16);
  const int b = maker.Input({4096, 4096}, DType::kF16);
  maker.Output(maker.Add("MatMul", {a, b}));
  EXPECT_THAT(TextOf(maker, kHopper), Not(HasSubstr("slt")));
}

std::string TextOfConvolution(int64_t groups) {
  SegmentMaker maker;
  const int x = maker.Input({8, 64, 16, 16}, DType::kF16);
  const int weight = maker.Input({128, 64 / groups, 3, 3}, DType::kF16);
  maker.Output(maker.Add("Conv", {x, weight},
                         {{"group", groups}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}));
  return TextOf(maker, kHopper);
}

TEST(TilesTest, ConvolutionIsAProductOfEachGroup) {
  for (const int64_t groups : {1, 2, 32}) {
    EXPECT_THAT(TextOfConvolution(groups), ContainsRegex("tt.dot [^\n]*xf16> \\* tensor"));
  }
}

// A channel of the input for each of the output, which has no rows.
TEST(TilesTest, DepthwiseConvolutionIsNoProduct) {
  SegmentMaker maker;
  const int x = maker.Input({8, 64, 16, 16}, DType::kF16);
  const int weight = maker.Input({64, 1, 3, 3}, DType::kF16);
  maker.Output(maker.Add("Conv", {x, weight}, {{"group", int64_t{64}}}));
  EXPECT_THAT(TextOf(maker, kHopper), Not(HasSubstr("tt.dot")));
}

TEST(TilesTest, RowsThatHaveNoLargestNumberAreAlongX) {
  SegmentMaker maker;
  const Size rows = Size(1 << 24) - maker.Symbol("less", 0, 1 << 23, 64);
  const int a = maker.Input({rows, 64}, DType::kF16);
  const int b = maker.Input({64, 64}, DType::kF16);
  maker.Output(maker.Add("MatMul", {a, b}));
  const auto kernel = KernelOf(maker, kHopper);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->grid[0].extent, rows);
}

TEST(TilesTest, FactorsOfF32AreRoundedWhereMathIsFastAlone) {
  const SegmentMaker product = Product(DType::kF32, 512, 512, 512);
  EXPECT_THAT(TextOf(product, {}), AllOf(HasSubstr("tt.dot"), Not(HasSubstr("tf32"))));
  EXPECT_THAT(TextOf(product, {.fast_math = true}), HasSubstr("inputPrecision = tf32"));
}

TEST(TilesTest, EightBitFloatsAreMultipliedAsF16WhereTheTargetTakesNone) {
  const SegmentMaker product = Product(DType::kF8E4M3, 512, 512, 512);
  EXPECT_THAT(TextOf(product, kHopper), HasSubstr("xf8E4M3FN> * tensor"));
  EXPECT_THAT(TextOf(product, {.architecture = "80"}), HasSubstr("xf16> * tensor"));
  const EmitOptions older{.backend = "hip", .architecture = "gfx942"};
  EXPECT_THAT(TextOf(product, older), HasSubstr("xf16> * tensor"));
}

TEST(TilesTest, ProductsThatNoMatrixUnitTakesStaySums) {
  EXPECT_THAT(TextOf(Product(DType::kF64, 64, 64, 64), kHopper), Not(HasSubstr("tt.dot")));
  EXPECT_THAT(TextOf(Product(DType::kF16, 1, 64, 64), kHopper), Not(HasSubstr("tt.dot")));
}

TEST(TilesTest, SmallProductsHaveSmallTilesAndMoreOfThem) {
  const triton::TileSizes large =
      triton::TilesOfProduct({.rows = 8192, .columns = 8192, .depth = 64}, {});
  const triton::TileSizes small =
      triton::TilesOfProduct({.rows = 300, .columns = 300, .depth = 64}, {});
  EXPECT_EQ(large.rows * large.columns, 128 * 128);
  EXPECT_LT(small.rows * small.columns, 64 * 64);
}

SegmentMaker Attention(const Attributes& attributes) {
  SegmentMaker maker;
  const int q = maker.Input({2, 8, 1024, 64}, DType::kF16);
  const int k = maker.Input({2, 2, 1024, 64}, DType::kF16);
  const int v = maker.Input({2, 2, 1024, 64}, DType::kF16);
  maker.Output(maker.Add("Attention", {q, k, v}, attributes));
  return maker;
}

int Count(const std::string& text, std::string_view what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(TilesTest, AttentionGoesOverKeysOnceWithoutScoresInMemory) {
  const std::string text = TextOf(Attention({}), kHopper);
  EXPECT_EQ(Count(text, "scf.for"), 1);
  EXPECT_EQ(Count(text, "tt.dot"), 2);
  EXPECT_EQ(Count(text, "tt.store"), 1);
  EXPECT_THAT(text, HasSubstr("tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>"));
}

TEST(TilesTest, CausalAttentionComparesPositionsInTheLastTilesAlone) {
  const std::string text = TextOf(Attention({{"is_causal", int64_t{1}}}), kHopper);
  EXPECT_EQ(Count(text, "scf.for"), 2);
  EXPECT_EQ(Count(text, "arith.cmpi sle"), 1);
}

TEST(TilesTest, OnHopperNoSumIsMultipliedWhileAMatrixUnitAddsToIt) {
  const std::string sum_is_multiplied = "arith.mulf [^\n]*x64xf32>";
  EXPECT_THAT(TextOf(Attention({}), kHopper), Not(ContainsRegex(sum_is_multiplied)));
  EXPECT_THAT(TextOf(Attention({}), {.architecture = "80"}), ContainsRegex(sum_is_multiplied));
}

TEST(TilesTest, WideHeadsOfAttentionLeaveNoRegistersForASecondSum) {
  EXPECT_TRUE(triton::TilesOfAttention({.width = 128, .columns = 128}, kHopper).adds_apart);
  EXPECT_FALSE(triton::TilesOfAttention({.width = 256, .columns = 256}, kHopper).adds_apart);
}

TEST(TilesTest, SoftmaxInF64StaysAsItIs) {
  EXPECT_THAT(TextOf(Attention({{"softmax_precision", int64_t{11}}}), kHopper),
              Not(HasSubstr("tt.dot")));
}

}  // namespace
}  // namespace kiln::graph
