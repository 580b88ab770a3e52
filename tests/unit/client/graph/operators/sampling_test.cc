#include <gmock/gmock.h>

#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using Numbers = std::vector<double>;

// A row of four elements, sampled at places: -1 and 1 are its ends.
Numbers SampledRow(const Attributes& attributes, const Numbers& places) {
  SingleOperation sample("GridSample", attributes);
  const auto count = static_cast<int64_t>(places.size());
  sample.Input({{1, 1, 4}, {10, 20, 40, 80}}).Input({{1, count, 1}, places});
  return sample.Elements();
}

TEST(GridSampleTest, EndsAreCornersOrMiddlesOfElements) {
  // Corners: -0.75 is the middle of the first element, 0 lies between the second and the third.
  EXPECT_THAT(SampledRow({}, {-0.75, 0, -1}), ElementsAre(10, 30, 5));
  EXPECT_THAT(SampledRow({{"align_corners", 1}}, {-1, 0, 1}), ElementsAre(10, 30, 80));
}

TEST(GridSampleTest, WhatLiesOutsideIsZeroTheBorderOrReflected) {
  const Numbers outside = {-1.25, 1.75};  // elements -1 and 5
  EXPECT_THAT(SampledRow({}, outside), ElementsAre(0, 0));
  EXPECT_THAT(SampledRow({{"padding_mode", "border"}}, outside), ElementsAre(10, 80));
  // Around the outer corners: -1 becomes 0, 5 becomes 2.
  EXPECT_THAT(SampledRow({{"padding_mode", "reflection"}}, outside), ElementsAre(10, 40));
  // Around the middles of the outer elements: -1 becomes 1, 5 becomes 1.
  EXPECT_THAT(
      SampledRow({{"padding_mode", "reflection"}, {"align_corners", 1}}, {-5.0 / 3, 7.0 / 3}),
      Pointwise(DoubleNear(1e-3), Numbers{20, 20}));
}

TEST(GridSampleTest, WhatMayBeEmptyIsSampledWithZerosOutsideAlone) {
  const auto shape = [](const std::string& outside, int64_t least) {
    return SingleOperation("GridSample", {{"padding_mode", outside}})
        .Symbols({{"width", least, 8, 4, 1}}, {})
        .Input({{1, 1, Size::Of(0)}, {}})
        .Input({{1, 3, 1}, {0, 0, 0}})
        .Shape();
  };
  for (const std::string outside : {"border", "reflection"}) {
    EXPECT_THAT(shape(outside, 0), HasSubstr("there are no elements to repeat where width is 0"));
    EXPECT_EQ(shape(outside, 1), "[1, 1, 3]");
  }
  EXPECT_EQ(shape("zeros", 0), "[1, 1, 3]");
}

TEST(GridSampleTest, NearestTakesTheEvenOneOfTwo) {
  EXPECT_THAT(SampledRow({{"mode", "nearest"}}, {-0.5, -0.3, 0}), ElementsAre(10, 20, 40));
}

TEST(GridSampleTest, CubicWeighsFourNeighbours) {
  // Halfway: -0.09375 (10 + 80) + 0.59375 (20 + 40).
  EXPECT_THAT(SampledRow({{"mode", "cubic"}}, {0, -0.25}), ElementsAre(27.1875, 20));
}

TEST(GridSampleTest, TheGridNamesTheLastDimensionFirst) {
  SingleOperation sample("GridSample", {{"align_corners", 1}, {"mode", "bilinear"}});
  sample.Input({{1, 2, 2, 2}, {1, 2, 3, 4, 10, 20, 30, 40}});
  sample.Input({{1, 1, 2, 2}, {1, -1, 0, 1}});
  EXPECT_EQ(sample.Shape(), "[1, 2, 1, 2]");
  EXPECT_THAT(sample.Elements(), ElementsAre(2, 3.5, 20, 35));
}

TEST(GridSampleTest, AGridOfOtherDimensionsIsAnError) {
  SingleOperation sample("GridSample");
  sample.Input({{1, 1, 2, 2}, {1, 2, 3, 4}}).Input({{1, 1, 1, 3}, {0, 0, 0}});
  EXPECT_THAT(sample.Shape(), HasSubstr("a grid of [1, 1, 1, 3] does not fit [1, 1, 2, 2]"));
}

}  // namespace
}  // namespace kiln::graph
