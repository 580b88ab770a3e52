#include "client/graph/program/dtype.h"

#include <gtest/gtest.h>

namespace kiln::graph {
namespace {

TEST(DTypeTest, EachRowOfTheTableIsFoundByItsNames) {
  for (int number = 0; number < kDTypes; ++number) {
    const auto type = static_cast<DType>(number);
    EXPECT_EQ(FactsOf(type).type, type);
    EXPECT_EQ(ParseDType(FactsOf(type).name), type) << FactsOf(type).name;
  }
  EXPECT_EQ(ParseDType("FLOAT16"), DType::kF16);
  EXPECT_EQ(ParseDType("bfloat16"), DType::kBF16);
  EXPECT_EQ(ParseDType("FLOAT8E5M2"), DType::kF8E5M2);
  EXPECT_EQ(ParseDType("float"), std::nullopt);
}

TEST(DTypeTest, NarrowFloatsComputeAsFloat32) {
  for (const DType type : {DType::kF8E4M3, DType::kF8E5M2, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(FactsOf(type).compute, DType::kF32);
    EXPECT_EQ(FactsOf(type).accumulate, DType::kF32);
  }
  EXPECT_EQ(FactsOf(DType::kF64).accumulate, DType::kF64);
}

TEST(DTypeTest, TilesAreMultipliedAsTheTargetCan) {
  using enum DType;
  EXPECT_EQ(TileFactor(kF16, "cuda", "75"), kF16);
  EXPECT_EQ(TileFactor(kI8, "cuda", "80"), kI8);
  EXPECT_EQ(TileFactor(kI8, "cuda", "75"), std::nullopt) << "sums of elements";
  EXPECT_EQ(TileFactor(kI8, "cuda", ""), kI8);
  EXPECT_EQ(TileFactor(kI8, "hip", "gfx90a"), kI8);
  EXPECT_EQ(TileFactor(kF8E4M3, "cuda", "86"), kF16) << "f16 has all numbers of fp8";
  EXPECT_EQ(TileFactor(kF8E4M3, "cuda", "90a"), kF8E4M3);
  EXPECT_EQ(TileFactor(kF8E5M2, "hip", "gfx942"), kF16) << "its fp8 is another one";
  EXPECT_EQ(TileFactor(kF8E5M2, "hip", "gfx950"), kF8E5M2);
  EXPECT_EQ(TileFactor(kF64, "cuda", "90"), std::nullopt);
}

}  // namespace
}  // namespace kiln::graph
