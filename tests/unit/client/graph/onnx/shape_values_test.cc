// Shapes that models compute, as exporters write them, through whole models.
#include <gtest/gtest.h>

#include <cstring>

#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/operators/segment_check.h"
#include "client/graph/segment/shape.h"
#include "tests/testing/graph/onnx_maker.h"

namespace kiln::graph {
namespace {

std::string Integers(const std::string& name, const std::vector<int64_t>& numbers) {
  std::string raw(numbers.size() * 8, '\0');
  std::memcpy(raw.data(), numbers.data(), raw.size());
  return OnnxTensorBytes({.name = name, .type = 7, .dims = {std::ssize(numbers)}, .raw = raw});
}

// Nodes from x to y; constants "zero" to "four", and "rest", which is -1.
Segment ReadNodes(const std::vector<std::string>& nodes, const std::vector<std::string>& shape) {
  OnnxMaker model{
      .nodes = nodes,
      .inputs = {OnnxValue("x", shape)},
      .outputs = {OnnxValue("y", {})},
      .initializers = {Integers("zero", {0}), Integers("one", {1}), Integers("two", {2}),
                       Integers("four", {4}), Integers("rest", {-1})}};
  const auto segment = ReadOnnxBytes(model.Bytes(), "", {});
  EXPECT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(Check(*segment), absl::OkStatus());
  return *segment;
}

std::string ShapeOfY(const Segment& segment) {
  const auto y = std::ranges::find(segment.values, "y", &Value::name);
  return y->is_opaque ? "opaque" : ShapeText(y->shape, segment.symbols);
}

const std::vector<std::string> kToRows = {
    OnnxNodeBytes("Shape", {"x"}, {"s"}), OnnxNodeBytes("Gather", {"s", "zero"}, {"rows"}),
    OnnxNodeBytes("Concat", {"rows", "rest"}, {"target"}, {OnnxInt("axis", 0)}),
    OnnxNodeBytes("Reshape", {"x", "target"}, {"y"})};

TEST(ShapeValuesTest, OfFixedDimensionsOnlyTheReshapeIsLeft) {
  const Segment segment = ReadNodes(kToRows, {"2", "3", "4"});
  EXPECT_EQ(ShapeOfY(segment), "[2, 12]");
  EXPECT_EQ(segment.operations.size(), 1u);
}

TEST(ShapeValuesTest, AnOpenDimensionIsKept) {
  EXPECT_EQ(ShapeOfY(ReadNodes(kToRows, {"batch", "3", "4"})), "[batch, 12]");
}

TEST(ShapeValuesTest, AnOpenDimensionIsKeptWhereZerosAreSizes) {
  std::vector<std::string> nodes = kToRows;
  nodes.back() = OnnxNodeBytes("Reshape", {"x", "target"}, {"y"}, {OnnxInt("allowzero", 1)});
  const Segment segment = ReadNodes(nodes, {"batch", "3", "4"});
  EXPECT_EQ(ShapeOfY(segment), "[batch, 12]");
  EXPECT_EQ(segment.operations.back().kept_because, "");
}

TEST(ShapeValuesTest, ProductsOfOpenDimensionsAreTheRest) {
  EXPECT_EQ(ShapeOfY(ReadNodes(
                {OnnxNodeBytes("Shape", {"x"}, {"s"}),
                 OnnxNodeBytes("Slice", {"s", "zero", "two"}, {"first"}),
                 OnnxNodeBytes("ReduceProd", {"first"}, {"rows"}),
                 OnnxNodeBytes("Mul", {"rows", "two"}, {"halves"}),
                 OnnxNodeBytes("Concat", {"halves", "two"}, {"target"}, {OnnxInt("axis", 0)}),
                 OnnxNodeBytes("Reshape", {"x", "target"}, {"y"})},
                {"batch", "length", "4"})),
            "[2*batch*length, 2]");
}

TEST(ShapeValuesTest, ArithmeticOnNumbersIsThatOfTheOperators) {
  // (24 / 4 - 2) x 6, by Where, Equal, Min and Max.
  const Segment segment = ReadNodes(
      {OnnxNodeBytes("Size", {"x"}, {"all"}), OnnxNodeBytes("Div", {"all", "four"}, {"sixth"}),
       OnnxNodeBytes("Sub", {"sixth", "two"}, {"rows"}),
       OnnxNodeBytes("Equal", {"rows", "four"}, {"is_four"}),
       OnnxNodeBytes("Where", {"is_four", "rows", "one"}, {"chosen"}),
       OnnxNodeBytes("Min", {"chosen", "four"}, {"least"}),
       OnnxNodeBytes("Max", {"least", "zero"}, {"most"}),
       OnnxNodeBytes("Concat", {"most", "sixth"}, {"target"}, {OnnxInt("axis", 0)}),
       OnnxNodeBytes("Reshape", {"x", "target"}, {"y"})},
      {"2", "3", "4"});
  EXPECT_EQ(ShapeOfY(segment), "[4, 6]");
}

TEST(ShapeValuesTest, DimensionsThatStayInTheirPlacesAreKept) {
  EXPECT_EQ(ShapeOfY(ReadNodes(
                {OnnxNodeBytes("Shape", {"x"}, {"s"}), OnnxNodeBytes("Reshape", {"x", "s"}, {"y"})},
                {"batch", "length", "4"})),
            "[batch, length, 4]");
}

TEST(ShapeValuesTest, TwoOpenDimensionsThatAreNewStayTheEngines) {
  const Segment segment =
      ReadNodes({OnnxNodeBytes("Shape", {"x"}, {"s"}), OnnxNodeBytes("Gather", {"s", "one"}, {"a"}),
                 OnnxNodeBytes("Gather", {"s", "zero"}, {"b"}),
                 OnnxNodeBytes("Concat", {"a", "b", "four"}, {"target"}, {OnnxInt("axis", 0)}),
                 OnnxNodeBytes("Reshape", {"x", "target"}, {"y"})},
                {"batch", "length", "4"});
  EXPECT_NE(segment.operations.back().kept_because, "");
}

TEST(ShapeValuesTest, AnOutputOfTheModelIsComputed) {
  const Segment segment = ReadNodes({OnnxNodeBytes("Shape", {"x"}, {"y"})}, {"2", "3"});
  ASSERT_EQ(segment.operations.size(), 1u);
  EXPECT_EQ(segment.operations[0].kept_because, "");
}

// The heads of an attention: they are repeated where there are fewer of keys than of queries.
TEST(ShapeValuesTest, ConditionsOnSizesAreThoseOfTheOperators) {
  const Segment segment = ReadNodes(
      {OnnxNodeBytes("Size", {"x"}, {"all"}), OnnxNodeBytes("Mod", {"all", "four"}, {"over"}),
       OnnxNodeBytes("Equal", {"over", "zero"}, {"is_whole"}),
       OnnxNodeBytes("Equal", {"all", "four"}, {"is_four"}),
       OnnxNodeBytes("Not", {"is_four"}, {"is_other"}),
       OnnxNodeBytes("And", {"is_whole", "is_other"}, {"repeats"}),
       OnnxNodeBytes("Where", {"repeats", "two", "one"}, {"times"}),
       OnnxNodeBytes("Concat", {"times", "one", "one"}, {"target"}, {OnnxInt("axis", 0)}),
       OnnxNodeBytes("Expand", {"x", "target"}, {"y"})},
      {"2", "4"});
  EXPECT_EQ(ShapeOfY(segment), "[2, 2, 4]");
}

// The shape of a layer norm's mean: dimensions up to the axis, then ones.
TEST(ShapeValuesTest, ANegativeAxisCountsTheDimensionsBehindIt) {
  const Segment segment =
      ReadNodes({OnnxNodeBytes("Shape", {"x"}, {"s"}),
                 OnnxNodeBytes("Slice", {"s", "zero", "rest"}, {"first"}),
                 OnnxNodeBytes("Neg", {"rest"}, {"count"}),
                 OnnxNodeBytes("Concat", {"first", "count"}, {"target"}, {OnnxInt("axis", 0)}),
                 OnnxNodeBytes("ReduceSum", {"x", "rest"}, {"sum"}),
                 OnnxNodeBytes("Reshape", {"sum", "target"}, {"y"})},
                {"batch", "4"});
  EXPECT_EQ(ShapeOfY(segment), "[batch, 1]");
}

}  // namespace
}  // namespace kiln::graph
