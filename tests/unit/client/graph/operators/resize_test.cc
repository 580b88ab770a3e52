// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using Ints = std::vector<int64_t>;

// Two rows to four, three columns to four.
std::vector<double> Nearest(const std::string& coordinates, const std::string& rounding) {
  return SingleOperation("Resize", {{"coordinate_transformation_mode", coordinates},
                                    {"nearest_mode", rounding}})
      .Input(Numbered({1, 1, 2, 3}))
      .Omitted()
      .Input({{4}, {1, 1, 2, 1.5}, DType::kF32, true})
      .Elements();
}

TEST(ResizeTest, NearestRoundsAsItsModeSays) {
  EXPECT_THAT(Nearest("half_pixel", "round_prefer_floor"),
              ElementsAre(-5, -5, 2, -2, -5, -5, 2, -2, 5, 5, 1, -3, 5, 5, 1, -3));
  EXPECT_THAT(Nearest("half_pixel", "floor"),
              ElementsAre(-5, -5, 2, 2, -5, -5, 2, 2, -5, -5, 2, 2, 5, 5, 1, 1));
  EXPECT_THAT(Nearest("half_pixel", "ceil"),
              ElementsAre(-5, 2, -2, -2, 5, 1, -3, -3, 5, 1, -3, -3, 5, 1, -3, -3));
  EXPECT_THAT(Nearest("half_pixel", "round_prefer_ceil"),
              ElementsAre(-5, 2, 2, -2, -5, 2, 2, -2, 5, 1, 1, -3, 5, 1, 1, -3));
}

TEST(ResizeTest, NearestPlacesAsItsCoordinatesSay) {
  EXPECT_THAT(Nearest("asymmetric", "floor"),
              ElementsAre(-5, -5, 2, -2, -5, -5, 2, -2, 5, 5, 1, -3, 5, 5, 1, -3));
  EXPECT_THAT(Nearest("half_pixel_symmetric", "round_prefer_floor"),
              ElementsAre(-5, 2, 2, -2, -5, 2, 2, -2, 5, 1, 1, -3, 5, 1, 1, -3));
}

TEST(ResizeTest, LinearInterpolatesBetweenNeighbours) {
  const auto linear = [](const std::string& coordinates) {
    return SingleOperation("Resize",
                           {{"coordinate_transformation_mode", coordinates}, {"mode", "linear"}})
        .Input(Numbered({1, 1, 2, 3}))
        .Omitted()
        .Omitted()
        .Input(KnownInts({1, 1, 3, 5}))
        .Elements();
  };
  const auto are_near = [](const std::vector<double>& expected) {
    return Pointwise(DoubleNear(1e-4), expected);
  };
  EXPECT_THAT(linear("half_pixel"),
              are_near({-5, -2.2, 2, -0.4, -2, 0, 0.6, 1.5, -0.9, -2.5, 5, 3.4, 1, -1.4, -3}));
  EXPECT_THAT(linear("asymmetric"), are_near({-5, -0.8, 1.2, -1.2, -2, 1.66667, 1.46667, 0.53333,
                                              -1.86667, -2.66667, 5, 2.6, 0.2, -2.2, -3}));
  EXPECT_THAT(linear("align_corners"),
              are_near({-5, -1.5, 2, 0, -2, 0, 0.75, 1.5, -0.5, -2.5, 5, 3, 1, -1, -3}));
}

TEST(ResizeTest, CornersAreAlignedToTheSizeBeforeItIsRounded) {
  // 0.6 of 4 elements are 2.4: the last one lies 1.4 steps behind the first.
  const auto elements =
      SingleOperation("Resize", {{"coordinate_transformation_mode", "align_corners"},
                                 {"mode", "linear"},
                                 {"scales", std::vector<double>{0.6}}})
          .Input({{4}, {1, 2, 3, 4}})
          .Elements();
  EXPECT_THAT(elements, Pointwise(DoubleNear(1e-4), std::vector<double>{1, 1 + 3 / 1.4}));
}

TEST(ResizeTest, SizesOfSomeAxesCanKeepTheAspectRatio) {
  SingleOperation resize("Resize",
                         {{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", "not_larger"}});
  resize.Input(Numbered({1, 1, 2, 3})).Omitted().Omitted().Input(KnownInts({4, 4}));
  EXPECT_EQ(resize.Shape(), "[1, 1, 3, 4]");
  EXPECT_THAT(resize.Elements(), ElementsAre(-5, 2, 2, -2, 5, 1, 1, -3, 5, 1, 1, -3));
}

TEST(ResizeTest, UpsampleRepeatsElementsOfAnUnknownNumber) {
  SingleOperation upsample("Upsample");
  upsample.Symbols({{.name = "n", .min = 1, .max = 8, .typical = 8, .multiple_of = 1}}, {3});
  upsample.Input({{Size::Of(0)}, {1, 2, 3}}).Input({{1}, {2}, DType::kF32, true});
  EXPECT_EQ(upsample.Shape(), "[2*n]");
  EXPECT_THAT(upsample.Elements(), ElementsAre(1, 1, 2, 2, 3, 3));
}

std::vector<double> Resized(Attributes attributes, double scale) {
  attributes["scales"] = std::vector<double>{scale};
  return SingleOperation("Resize", std::move(attributes)).Input({{4}, {10, 20, 40, 80}}).Elements();
}

TEST(ResizeTest, CubicWeighsFourNeighbours) {
  // Halfway: -0.09375 and 0.59375 of neighbours; the first element stands for what lies before it.
  const Attributes cubic = {{"mode", "cubic"}, {"coordinate_transformation_mode", "asymmetric"}};
  const auto elements = Resized(cubic, 2);
  EXPECT_THAT(elements[0], DoubleNear(10, 1e-4));
  EXPECT_THAT(elements[1], DoubleNear(0.59375 * 30 - 0.09375 * 50, 1e-4));
  EXPECT_THAT(elements[3], DoubleNear(0.59375 * 60 - 0.09375 * 90, 1e-4));
  Attributes excludes = cubic;
  excludes["exclude_outside"] = int64_t{1};
  EXPECT_THAT(Resized(excludes, 2)[1], DoubleNear((0.59375 * 30 - 0.09375 * 40) / 1.09375, 1e-4));
}

TEST(ResizeTest, AntialiasingAveragesWhatBecomesOneElement) {
  // Places 0.5 and 2.5; weights fall over two elements: 1/4, 3/4 at distances 1.5 and 0.5.
  const auto elements = Resized({{"mode", "linear"}, {"antialias", 1}}, 0.5);
  EXPECT_THAT(elements[0], DoubleNear((10 + 3 * 10 + 3 * 20 + 40) / 8.0, 1e-4));
  EXPECT_THAT(elements[1], DoubleNear((20 + 3 * 40 + 3 * 80 + 80) / 8.0, 1e-4));
}

TEST(ResizeTest, ACropHasAValueForWhatLiesBeyondTheInput) {
  SingleOperation resize("Resize", {{"mode", "linear"},
                                    {"coordinate_transformation_mode", "tf_crop_and_resize"},
                                    {"extrapolation_value", -1.0}});
  resize.Input({{4}, {10, 20, 40, 80}}).Input({{2}, {0.5, 1.5}});
  resize.Omitted().Input(KnownInts({3}));
  // Places 1.5, 3 and 4.5.
  EXPECT_THAT(resize.Elements(), ElementsAre(30, 80, -1));
}

TEST(ResizeTest, ScalesBeyondAllElementsAreRefused) {
  const auto shape = [](const std::vector<Size>& input, Attributes attributes) {
    SingleOperation resize("Resize", std::move(attributes));
    resize.Symbols({{.name = "n", .min = 1, .max = 8, .typical = 8, .multiple_of = 1}}, {3});
    return resize.Input({input, {1, 2, 3}}).Shape();
  };
  for (const auto& input : {std::vector<Size>{3}, std::vector<Size>{Size::Of(0)}}) {
    EXPECT_THAT(shape(input, {{"scales", std::vector<double>{1e30}}}),
                HasSubstr("elements along an axis are too many"));
  }
  SingleOperation by_sizes("Resize");
  by_sizes.Input({{3}, {1, 2, 3}}).Omitted().Omitted();
  by_sizes.Input({{1}, {std::nan("")}, DType::kF32, true});
  EXPECT_THAT(by_sizes.Shape(), HasSubstr("sizes has a NaN"));
  const Attributes antialiased = {{"mode", "linear"}, {"antialias", 1}};
  for (const double scale : {1e-4, 1e-30}) {
    Attributes attributes = antialiased;
    attributes["scales"] = std::vector<double>{scale};
    EXPECT_THAT(shape({3}, attributes), HasSubstr("antialiasing over "));
  }
}

TEST(ResizeTest, UnknownModesAreNamed) {
  const auto error = [](Attributes attributes) {
    attributes["scales"] = std::vector<double>{0.5};
    return SingleOperation("Resize", std::move(attributes)).Input(Numbered({4})).Shape();
  };
  EXPECT_THAT(error({{"mode", "quintic"}}), HasSubstr("mode \"quintic\" is unknown"));
  EXPECT_THAT(error({{"coordinate_transformation_mode", "tf_crop_and_resize"}}),
              HasSubstr("\"tf_crop_and_resize\" are unknown, or their roi is missing"));
}

}  // namespace
}  // namespace kiln::graph
