#include "client/graph/program/size.h"

#include <gtest/gtest.h>

#include <limits>

namespace kiln::graph {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
const std::vector<Symbol> kSizeSymbols = {{"batch", 1, 64, 8, 1}, {"heads", 16, 64, 32, 16}};

TEST(SizeTest, SumsAndProductsHaveOneForm) {
  const Size batch = Size::Of(0);
  const Size heads = Size::Of(1);
  EXPECT_EQ((batch + 1) * (heads + 2), 2 + heads + heads * batch + 2 * batch);
  EXPECT_EQ((batch + 1) * (batch - 1), batch * batch - 1);
  EXPECT_EQ(batch - batch, Size(0));
  EXPECT_EQ((batch - batch).Constant(), 0);
  EXPECT_EQ((batch + 3 - batch).Constant(), 3);
  EXPECT_EQ(batch.Constant(), std::nullopt);
}

TEST(SizeTest, ASizeMayBeAddedToItself) {
  Size size = Size::Of(0) + 1;
  size += size;
  EXPECT_EQ(size, 2 * Size::Of(0) + 2);
  size *= size;
  EXPECT_EQ(size, 4 * Size::Of(0) * Size::Of(0) + 8 * Size::Of(0) + 4);
}

TEST(SizeTest, EvaluatesWithTheValuesOfSymbols) {
  EXPECT_EQ((4 * Size::Of(0) * Size::Of(1) - 1).Evaluate({3, 5}), 59);
  EXPECT_EQ((Size::Of(0) * Size::Of(0)).Evaluate({kMost, 1}), std::nullopt);
  EXPECT_EQ(Size(0).Evaluate({}), 0);
}

TEST(SizeTest, OverflowIsInvalidAndStaysSo) {
  Size size = kMost;
  size += 1;
  EXPECT_FALSE(size.IsValid());
  EXPECT_FALSE((size - 1).IsValid());
  EXPECT_FALSE((size * 0).IsValid());
  EXPECT_FALSE((kMost * Size::Of(0) * 2).IsValid());
  EXPECT_EQ(size.Constant(), std::nullopt);
  EXPECT_TRUE((Size(kMost) * 1).IsValid());
}

TEST(SizeTest, KnowsWhatEveryValueIsAMultipleOf) {
  EXPECT_EQ((4 * Size::Of(1)).MultipleOf(kSizeSymbols), 64);
  EXPECT_EQ((4 * Size::Of(1) + 8).MultipleOf(kSizeSymbols), 8);
  EXPECT_EQ((-6 * Size::Of(0)).MultipleOf(kSizeSymbols), 6);
  EXPECT_EQ(Size(0).MultipleOf(kSizeSymbols), 0);
}

TEST(SizeTest, PrintsTheConstantLast) {
  EXPECT_EQ((4 * Size::Of(0) * Size::Of(1) + 1).ToString(kSizeSymbols), "4*batch*heads + 1");
  EXPECT_EQ((2 - Size::Of(0)).ToString(kSizeSymbols), "-batch + 2");
  EXPECT_EQ((Size::Of(1) - 7).ToString(kSizeSymbols), "heads - 7");
  EXPECT_EQ(Size(-3).ToString(kSizeSymbols), "-3");
  EXPECT_EQ(Size(0).ToString(kSizeSymbols), "0");
}

}  // namespace
}  // namespace kiln::graph
