#include "client/graph/onnx/onnx_reader.h"

#include <gtest/gtest.h>

#include "client/graph/operators/segment_check.h"
#include "client/graph/plan/plan.h"
#include "client/graph/segment/limits.h"
#include "client/graph/segment/shape.h"
#include "tests/testing/graph/onnx_maker.h"

namespace kiln::graph {
namespace {

// A model of one node from x to y.
OnnxMaker OneNode(std::string node, std::vector<std::string> shape = {"2", "3"}) {
  return {.nodes = {std::move(node)},
          .inputs = {OnnxValue("x", shape)},
          .outputs = {OnnxValue("y", {})}};
}

class OnnxReaderTest : public testing::Test {
 protected:
  // Check takes every segment that comes out.
  Segment Read(const OnnxMaker& model, const OnnxOptions& options = {}) {
    auto segment = ReadOnnxBytes(model.Bytes(), "", options);
    EXPECT_TRUE(segment.ok()) << segment.status();
    if (!segment.ok()) return {};
    EXPECT_EQ(Check(*segment), absl::OkStatus());
    return *std::move(segment);
  }
  static std::string WhyNot(const OnnxMaker& model, const OnnxOptions& options = {}) {
    return std::string(ReadOnnxBytes(model.Bytes(), "", options).status().message());
  }
  static const Value& Named(const Segment& segment, std::string_view name) {
    return *std::ranges::find(segment.values, name, &Value::name);
  }
  static std::string ShapeOf(const Segment& segment, std::string_view name) {
    return ShapeText(Named(segment, name).shape, segment.symbols);
  }
};

TEST_F(OnnxReaderTest, InitializersAndConstantNodesAreConstantsWithTheirBytes) {
  OnnxMaker model = OneNode(OnnxNodeBytes("Add", {"x", "w"}, {"h"}));
  model.initializers = {OnnxTensorBytes({.name = "w", .dims = {3}, .floats = {1, 2, 3}})};
  model.nodes.push_back(OnnxNodeBytes("Constant", {}, {"c"}, {OnnxInt("value_int", 7)}));
  model.nodes.push_back(OnnxNodeBytes("Identity", {"c"}, {"y"}));
  const Segment segment = Read(model);
  EXPECT_EQ(segment.operations.size(), 2u);
  EXPECT_TRUE(Named(segment, "w").is_constant);
  const float numbers[] = {1, 2, 3};
  EXPECT_EQ(*Named(segment, "w").bytes,
            std::string(reinterpret_cast<const char*>(numbers), sizeof numbers));
  EXPECT_EQ(Named(segment, "c").type, DType::kI64);
  EXPECT_EQ(*Named(segment, "c").bytes, std::string("\7\0\0\0\0\0\0\0", 8));
  EXPECT_TRUE(Named(segment, "y").is_output);
}

TEST_F(OnnxReaderTest, OpenDimensionsBecomeSymbolsOfTheirNames) {
  OnnxMaker model = OneNode(OnnxNodeBytes("Relu", {"x"}, {"y"}), {"batch size", "?", "4"});
  const Segment segment = Read(model);
  EXPECT_EQ(ShapeOf(segment, "y"), "[batch_size, x_1, 4]");
  EXPECT_EQ(segment.symbols[0].min, 1);
  EXPECT_EQ(segment.symbols[0].max, 4096);
}

TEST_F(OnnxReaderTest, RangesOfDimensionsAreTheCallers) {
  OnnxMaker model = OneNode(OnnxNodeBytes("Relu", {"x"}, {"y"}), {"batch", "length", "4"});
  const Segment segment =
      Read(model, {.dimensions = {{"batch", 8, 8, 8, 1}, {"length", 16, 64, 32, 16}}});
  EXPECT_EQ(ShapeOf(segment, "y"), "[8, length, 4]");
  ASSERT_EQ(segment.symbols.size(), 1u);
  EXPECT_EQ(segment.symbols[0].multiple_of, 16);
  EXPECT_EQ(WhyNot(model, {.dimensions = {{"batch", 9, 8, 8, 1}}}),
            "dimension \"batch\": its range is not 0 <= min <= typical <= max");
  EXPECT_EQ(WhyNot(model, {.dimensions = {{"bach", 8, 8, 8, 1}}}),
            "it leaves no dimension \"bach\" open; did you mean batch?");
}

TEST_F(OnnxReaderTest, AnInputThatTheCallerKnowsIsAConstant) {
  OnnxMaker model = OneNode(OnnxNodeBytes("Reshape", {"x", "shape"}, {"y"}));
  model.inputs.push_back(OnnxValue("shape", {"1"}, 7));
  EXPECT_FALSE(Read(model).operations[0].kept_because.empty());
  const Segment segment =
      Read(model, {.constants = {{"shape", std::string("\6\0\0\0\0\0\0\0", 8)}}});
  EXPECT_EQ(segment.operations[0].kept_because, "");
  EXPECT_EQ(ShapeOf(segment, "y"), "[6]");
}

TEST_F(OnnxReaderTest, UnknownOperatorsAreTheEnginesAndKeepTheShapeThatTheModelHas) {
  OnnxMaker model = OneNode(OnnxNodeBytes("Frobnicate", {"x"}, {"h"}));
  model.nodes.push_back(OnnxNodeBytes("Relu", {"h"}, {"y"}));
  model.intermediates = {OnnxValue("h", {"5"})};
  const Segment segment = Read(model);
  EXPECT_EQ(segment.operations[0].kept_because, "there is no operator Frobnicate");
  EXPECT_EQ(ShapeOf(segment, "y"), "[5]");
  const auto plan = MakePlan(segment, {.keeps_small_sections = true});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->refusals.size(), 1u);
  EXPECT_EQ(plan->refusals[0].reason, "there is no operator Frobnicate");
  EXPECT_EQ(plan->sections.size(), 1u);
}

TEST_F(OnnxReaderTest, WhatDependsOnAnUnknownShapeIsTheEngines) {
  OnnxMaker model = OneNode(OnnxNodeBytes("NonZero", {"x"}, {"h"}));
  model.nodes.push_back(OnnxNodeBytes("Abs", {"h"}, {"y"}));
  const Segment segment = Read(model);
  EXPECT_TRUE(Named(segment, "h").is_opaque);
  EXPECT_EQ(segment.operations[0].kept_because,
            "its output's shape depends on the input's elements");
  EXPECT_EQ(segment.operations[1].kept_because, "type or shape of value h is not known");
}

TEST_F(OnnxReaderTest, OtherDomainsAreTheEngines) {
  const Segment segment = Read(OneNode(OnnxNodeBytes("Relu", {"x"}, {"y"}, {}, "com.microsoft")));
  EXPECT_EQ(segment.operations[0].name, "com.microsoft.Relu");
  EXPECT_EQ(segment.operations[0].kept_because, "domain com.microsoft is not ONNX's");
  EXPECT_EQ(
      Read(OneNode(OnnxNodeBytes("Relu", {"x"}, {"y"}, {}, "ai.onnx"))).operations[0].kept_because,
      "");
}

TEST_F(OnnxReaderTest, ASubgraphIsTheEnginesAndReadsWhatItsNodesRead) {
  OnnxMaker branch{.nodes = {OnnxNodeBytes("Add", {"x", "h"}, {"z"})},
                   .outputs = {OnnxValue("z", {})}};
  OnnxMaker model = OneNode(OnnxNodeBytes("Relu", {"x"}, {"h"}));
  model.inputs.push_back(OnnxValue("condition", {}, 9));
  model.nodes.push_back(
      OnnxNodeBytes("If", {"condition"}, {"y"}, {OnnxGraphAttribute("then_branch", branch)}));
  const Segment segment = Read(model);
  EXPECT_EQ(segment.operations[1].kept_because, "its subgraphs are the engine's");
  EXPECT_EQ(segment.operations[1].inputs.size(), 3u);
}

TEST_F(OnnxReaderTest, SubgraphsThatAreTooDeepAreRefused) {
  OnnxMaker graph{.outputs = {OnnxValue("z", {})}};
  for (int i = 0; i < 40; ++i) {
    graph = {.nodes = {OnnxNodeBytes("If", {"c"}, {"z"}, {OnnxGraphAttribute("b", graph)})}};
  }
  EXPECT_EQ(WhyNot(graph), "subgraphs are over 32 deep");
}

TEST_F(OnnxReaderTest, AttributesThatNameTypesBecomeTheirNames) {
  const Segment segment = Read(OneNode(OnnxNodeBytes("Cast", {"x"}, {"y"}, {OnnxInt("to", 10)})));
  EXPECT_EQ(Named(segment, "y").type, DType::kF16);
  EXPECT_EQ(Read(OneNode(OnnxNodeBytes("Cast", {"x"}, {"y"}, {OnnxInt("to", 8)})))
                .operations[0]
                .kept_because,
            "attribute to: ONNX's type 8 is none of Kiln's");
}

TEST_F(OnnxReaderTest, AnOutputThatIsAnInputIsNoOutputOfTheSegment) {
  const OnnxMaker model{.inputs = {OnnxValue("x", {"2"})}, .outputs = {OnnxValue("x", {"2"})}};
  EXPECT_FALSE(Read(model).values[0].is_output);
}

TEST_F(OnnxReaderTest, InvalidModelsAreRefusedByName) {
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Relu", {"z"}, {"y"}))),
            "node 0 (Relu): nothing before it gives \"z\"");
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Relu", {"x"}, {"x"}))), "value \"x\" is defined twice");
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Relu", {"x"}, {"z"}))), "no node gives output \"y\"");
  EXPECT_EQ(ReadOnnxBytes("", "", {}).status().message(), "it has no graph");
}

TEST_F(OnnxReaderTest, ModelsThatWouldFillTheMemoryAreRefusedWhileTheyAreParsed) {
  const std::vector<std::string> many(kValuesMax + 1);
  EXPECT_EQ(WhyNot({.nodes = many}), "it has over 400000 nodes");
  EXPECT_EQ(WhyNot({.inputs = many}), "it has over 400000 inputs");
  EXPECT_EQ(WhyNot({.intermediates = many}), "it has over 400000 value_info");
  const std::vector<std::string> names(kOperandsMax + 1, "x");
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Sum", names, {"y"}))),
            "it has over 1024 inputs of a node");
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Split", {"x"}, names))),
            "it has over 1024 outputs of a node");
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Relu", {"x"}, {"y"}, std::vector<std::string>(65)))),
            "it has over 64 attributes of a node");
  const std::string node = OnnxNodeBytes("Relu", {"x"}, {"y"}, std::vector<std::string>(64));
  EXPECT_EQ(WhyNot({.nodes = std::vector<std::string>(15'626, node)}),
            "it has over 1000000 attributes");
  const OnnxMaker branch{.outputs = std::vector<std::string>(kValuesMax + 1, OnnxValue("z", {}))};
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("If", {"x"}, {"y"}, {OnnxGraphAttribute("b", branch)}))),
            "it has over 400000 values that a node's subgraphs read");
  EXPECT_EQ(WhyNot(OneNode(OnnxNodeBytes("Relu", {"x"}, {"y"}), std::vector<std::string>(65, "1"))),
            "it has over 64 dimensions of a value");
}

TEST_F(OnnxReaderTest, AModelThatIsCutOffAnywhereIsRefusedOrSmaller) {
  OnnxMaker model = OneNode(OnnxNodeBytes("Add", {"x", "w"}, {"y"}));
  model.initializers = {OnnxTensorBytes({.name = "w", .dims = {3}, .floats = {1, 2, 3}})};
  const std::string bytes = model.Bytes();
  for (size_t size = 1; size < bytes.size() - 4; ++size) {  // behind that, the opset is cut off
    EXPECT_FALSE(ReadOnnxBytes(std::string_view(bytes).substr(0, size), "", {}).ok()) << size;
  }
}

TEST_F(OnnxReaderTest, AFileThatIsMissingIsRefusedByName) {
  EXPECT_EQ(ReadOnnx("/nonexistent/model.onnx", {}).status().message(),
            "/nonexistent/model.onnx: No such file or directory");
}

}  // namespace
}  // namespace kiln::graph
