// What operators meant in older opsets, through whole models.
#include <gtest/gtest.h>

#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/operators/segment_check.h"
#include "client/graph/segment/shape.h"
#include "tests/testing/graph/onnx_maker.h"

namespace kiln::graph {
namespace {

Segment ReadOpset(int64_t opset, const std::string& node,
                  const std::vector<std::string>& more_inputs = {}) {
  OnnxMaker model{.nodes = {node},
                  .inputs = {OnnxValue("x", {"2", "3", "4"})},
                  .outputs = {OnnxValue("y", {})},
                  .opset = opset};
  model.inputs.insert(model.inputs.end(), more_inputs.begin(), more_inputs.end());
  const auto segment = ReadOnnxBytes(model.Bytes(), "", {});
  EXPECT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(Check(*segment), absl::OkStatus());
  return *segment;
}

TEST(OpsetTest, SoftmaxBeforeOpset13NormalizesAMatrix) {
  const Segment segment = ReadOpset(11, OnnxNodeBytes("Softmax", {"x"}, {"y"}));
  ASSERT_EQ(segment.operations.size(), 3u);
  EXPECT_EQ(segment.operations[0].name, "Flatten");
  EXPECT_EQ(ShapeText(segment.values[1].shape, {}), "[2, 12]");
  EXPECT_EQ(segment.operations[1].attributes.at("axis"), Attribute(int64_t{-1}));
  EXPECT_EQ(ShapeText(segment.values[3].shape, {}), "[2, 3, 4]");
}

TEST(OpsetTest, SoftmaxOfTheLastDimensionStaysOneOperation) {
  const std::string node = OnnxNodeBytes("Softmax", {"x"}, {"y"}, {OnnxInt("axis", 2)});
  EXPECT_EQ(ReadOpset(11, node).operations.size(), 1u);
  EXPECT_EQ(ReadOpset(13, OnnxNodeBytes("Softmax", {"x"}, {"y"})).operations.size(), 1u);
}

TEST(OpsetTest, BroadcastingByAxisIsTheEnginesUnlessNumPyWouldDoTheSame) {
  const std::vector<std::string> b = {OnnxValue("b", {"4"})};
  const auto why = [&b](int64_t axis) {
    const auto attributes = {OnnxInt("broadcast", 1), OnnxInt("axis", axis)};
    return ReadOpset(6, OnnxNodeBytes("Add", {"x", "b"}, {"y"}, attributes), b)
        .operations[0]
        .kept_because;
  };
  EXPECT_EQ(why(2), "");
  EXPECT_EQ(why(-1), "");
  EXPECT_EQ(why(1), "before opset 7 an axis tells where the second input's dimensions are");
}

TEST(OpsetTest, ResizeHadNoRegionOfInterestBeforeOpset11) {
  const Segment segment =
      ReadOpset(10, OnnxNodeBytes("Resize", {"x", "scales"}, {"y"}), {OnnxValue("scales", {"3"})});
  EXPECT_EQ(segment.operations[0].inputs, (std::vector<int>{0, kOmitted, 1}));
}

TEST(OpsetTest, AxesAreAnAttributeOrAnInput) {
  EXPECT_EQ(ReadOpset(11, OnnxNodeBytes("ReduceMax", {"x"}, {"y"})).operations[0].kept_because, "");
}

TEST(OpsetTest, ScalesOfGroupsAreTheEngines) {
  const std::vector<std::string> inputs = {OnnxValue("s", {"3"}), OnnxValue("b", {"3"})};
  const std::string node =
      OnnxNodeBytes("GroupNormalization", {"x", "s", "b"}, {"y"}, {OnnxInt("num_groups", 3)});
  EXPECT_EQ(ReadOpset(18, node, inputs).operations[0].kept_because,
            "before opset 21 its scales are the groups'");
  EXPECT_EQ(ReadOpset(21, node, inputs).operations[0].kept_because, "");
}

}  // namespace
}  // namespace kiln::graph
