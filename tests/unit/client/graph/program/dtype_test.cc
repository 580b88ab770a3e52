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

}  // namespace
}  // namespace kiln::graph
