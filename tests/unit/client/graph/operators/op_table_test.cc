#include "client/graph/operators/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "client/graph/operators/lowering.h"

namespace kiln::graph {
namespace {

TEST(OpTableTest, EachNameAndAliasNamesOneOperator) {
  std::set<std::string_view> names;
  for (const Operator& op : AllOperators()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(FindOperator(op.name), &op);
    for (const std::string_view alias : op.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(FindOperator(alias), &op);
    }
  }
  EXPECT_GE(AllOperators().size(), 150U);
}

TEST(OpTableTest, EachExpressionParses) {
  for (const Operator& op : AllOperators()) {
    for (const std::string_view text : {op.expression, op.integer_expression}) {
      if (text.empty()) continue;
      const auto parsed = Expression::Parse(text);
      EXPECT_TRUE(parsed.ok()) << op.name << ": " << parsed.status();
    }
  }
}

TEST(OpTableTest, ExpressionsNameInputsAndAttributesOfTheirOperatorAlone) {
  using Kind = Expression::Node::Kind;
  for (const Operator& op : AllOperators()) {
    for (const auto& parsed : {op.parsed, op.parsed_integer}) {
      for (const auto& node : parsed ? parsed->nodes() : std::vector<Expression::Node>()) {
        const bool is_named =
            node.kind == Kind::kAttribute || (node.kind == Kind::kHas && !node.text.empty());
        if (is_named) {
          EXPECT_TRUE(std::ranges::count(op.attributes, node.text, &AttributeFacts::name) == 1)
              << op.name << " names " << node.text;
        } else if (node.kind == Kind::kInput) {
          EXPECT_LT(node.input, op.category == OpCategory::kVariadic ? 2 : op.inputs_max)
              << op.name;
        }
      }
    }
  }
}

TEST(OpTableTest, UnsupportedOperatorsSayWhy) {
  for (const Operator& op : AllOperators()) {
    EXPECT_EQ(op.why_not.empty(), op.category != OpCategory::kUnsupported) << op.name;
  }
}

TEST(OpTableTest, EachSupportedRowHasARule) {
  for (const Operator& op : AllOperators()) {
    EXPECT_EQ(FindLoweringRule(op.name) != nullptr, op.category != OpCategory::kUnsupported)
        << op.name;
  }
}

TEST(OpTableTest, ReadsArityAndAttributes) {
  const Operator* gemm = FindOperator("gemm");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->name, "Gemm");
  EXPECT_EQ(gemm->inputs_min, 2);
  EXPECT_EQ(gemm->inputs_max, 3);
  EXPECT_EQ(FindOperator("Concat")->inputs_max, kAnyNumber);
  EXPECT_TRUE(FindOperator("Concat")->attributes[0].is_required);

  Operation operation;
  operation.name = "LayerNorm";
  EXPECT_EQ(*FindAttribute(operation, "axis"), Attribute(int64_t{-1}));
  EXPECT_EQ(*FindAttribute(operation, "epsilon"), Attribute(1e-5));
  EXPECT_EQ(FindAttribute(operation, "alpha"), nullptr);
  operation.attributes["axis"] = int64_t{1};
  EXPECT_EQ(*FindAttribute(operation, "axis"), Attribute(int64_t{1}));
}

TEST(OpTableTest, SuggestsTheNameThatAnUnknownOneResembles) {
  EXPECT_EQ(DidYouMeanOperator("Soft_max"), "; did you mean Softmax?");
  EXPECT_EQ(DidYouMeanOperator("Sigmiod"), "; did you mean Sigmoid?");
  EXPECT_EQ(DidYouMeanOperator("ReduceSun"), "; did you mean ReduceSum?");
  EXPECT_EQ(DidYouMeanOperator("Frobnicate"), "");
  EXPECT_EQ(DidYouMeanOperator(std::string(100000, 'x')), "");
}

TEST(OpTableTest, AFirstInputOfATypeThatTheRowLacksIsNotLowered) {
  Segment segment;
  segment.values = {{.name = "x", .type = DType::kI32, .shape = {4}}, {.name = "y", .shape = {4}}};
  const auto outputs = InferOutputs(segment, {"Softmax", {0}, {1}, {}});
  EXPECT_EQ(outputs.status().message(), "Softmax: type i32 is not lowered; cast it");
  EXPECT_TRUE(InferOutputs(segment, {"ReduceMax", {0}, {1}, {}}).ok());
}

}  // namespace
}  // namespace kiln::graph
