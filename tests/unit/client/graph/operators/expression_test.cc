#include "client/graph/operators/expression.h"

#include <gtest/gtest.h>

namespace kiln::graph::expression_test {
namespace {

// The program that computes the expression of one f32 input.
std::string TextOf(std::string_view text, const Attributes& attributes = {}) {
  const auto expression = Expression::Parse(text);
  if (!expression.ok()) return std::string(expression.status().message());
  ProgramBuilder builder("p");
  const int x = builder.Load(builder.AddInput("a", DType::kF32), builder.SizeOf(0));
  const auto value = EmitExpression(*expression, {{x}, attributes, DType::kF32}, builder);
  if (!value.ok()) return std::string(value.status().message());
  builder.Store(builder.AddOutput("b", builder.TypeOf(*value)), builder.SizeOf(0), *value);
  const LoopProgram program = std::move(builder).Finish();
  EXPECT_EQ(WhatIsWrong(program), "");
  const std::string all = ToText(program);
  return all.substr(all.find("  %2"));  // behind the load
}

TEST(ExpressionTest, OperatorsBindAsInC) {
  EXPECT_EQ(TextOf("1 + 2 * x - -3 / x"),
            "  %2 = 1 : f32\n"
            "  %3 = 2 : f32\n"
            "  %4 = mul %3, %1 : f32\n"
            "  %5 = add %2, %4 : f32\n"
            "  %6 = -3 : f32\n"
            "  %7 = div %6, %1 : f32\n"
            "  %8 = sub %5, %7 : f32\n"
            "  store b[%0] = %8 : f32\n");
}

TEST(ExpressionTest, EqualPartsAreComputedOnce) {
  EXPECT_EQ(TextOf("t = exp(x); t + t * exp(x)"),
            "  %2 = exp %1 : f32\n"
            "  %3 = mul %2, %2 : f32\n"
            "  %4 = add %2, %3 : f32\n"
            "  store b[%0] = %4 : f32\n");
}

TEST(ExpressionTest, AttributesChooseABranchWhenCodeIsMade) {
  EXPECT_EQ(TextOf("select(mode == 'fast', exp(x), x)", {{"mode", "fast"}}),
            "  %2 = exp %1 : f32\n"
            "  store b[%0] = %2 : f32\n");
  EXPECT_EQ(TextOf("select(has(y), max(x, y), select(n > 1, -x, x))", {{"n", int64_t{2}}}),
            "  %2 = neg %1 : f32\n"
            "  store b[%0] = %2 : f32\n");
}

TEST(ExpressionTest, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(TextOf("1 + "), "\"1 + \", character 5: a value is missing");
  EXPECT_EQ(TextOf("foo(x)"), "\"foo(x)\", character 7: there is no function foo");
  EXPECT_EQ(TextOf("min(x)"), "\"min(x)\", character 7: min takes 2 arguments");
  EXPECT_EQ(TextOf("(x"), "\"(x\", character 3: \")\" is missing");
  EXPECT_EQ(TextOf("x x"), "\"x x\", character 3: the expression should end here");
  EXPECT_EQ(TextOf("x + alpha"), "attribute alpha is missing, or is no number");
  EXPECT_EQ(TextOf("x + y"), "input 1 is missing");
  EXPECT_EQ(TextOf("load(x)"), "\"load(x)\", character 8: there is no function load");
}

}  // namespace
}  // namespace kiln::graph::expression_test
