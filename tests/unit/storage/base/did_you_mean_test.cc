#include "storage/base/did_you_mean.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

const std::vector<std::string> kKnown = {"store.size", "store.free_disk", "hot.size"};

TEST(DidYouMean, NamesTheNearest) {
  EXPECT_EQ(DidYouMean("store.sise", kKnown), "; did you mean store.size?");
  EXPECT_EQ(DidYouMean("stroe.free_dsk", kKnown), "; did you mean store.free_disk?");
}

TEST(DidYouMean, SaysNothingWhereNoneIsNear) {
  EXPECT_EQ(DidYouMean("banana", kKnown), "");
  EXPECT_EQ(DidYouMean(std::string(10'000, 's'), kKnown), "");
  EXPECT_EQ(DidYouMean("store.size", {}), "");
}

}  // namespace
}  // namespace kiln
