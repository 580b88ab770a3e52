#include "client/graph/run/symbol_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln::graph {
namespace {

using testing::HasSubstr;

const std::vector<Symbol> kSymbols = {{"batch", 1, 64, 8, 1}, {"length", 0, 1024, 512, 16}};

std::string Words(const std::vector<int64_t>& sizes) {
  const absl::Status status = CheckSymbols(kSymbols, sizes);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(SymbolRangesTest, BothEndsOfARangeAreInIt) {
  EXPECT_EQ(Words({1, 0}), "");
  EXPECT_EQ(Words({64, 1024}), "");
}

TEST(SymbolRangesTest, ASizeOutsideIsRefusedWithSymbolAndRange) {
  EXPECT_EQ(Words({65, 0}), "symbol batch is 65: it is 1 to 64");
  EXPECT_EQ(Words({0, 0}), "symbol batch is 0: it is 1 to 64");
  EXPECT_EQ(Words({1, -16}), "symbol length is -16: it is 0 to 1024");
  EXPECT_EQ(Words({1, 17}), "symbol length is 17: it is a multiple of 16");
}

TEST(SymbolRangesTest, EverySymbolHasASize) {
  EXPECT_THAT(Words({1}), HasSubstr("1 sizes of symbols are given, there are 2"));
  EXPECT_THAT(Words({1, 16, 1}), HasSubstr("3 sizes of symbols"));
}

}  // namespace
}  // namespace kiln::graph
