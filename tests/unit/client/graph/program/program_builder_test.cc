#include "client/graph/program/program_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace kiln::graph {
namespace {

const std::vector<Symbol> kBuilderSymbols = {{"n", 1, 1024, 128, 1}};

TEST(ProgramBuilderTest, PrintsTheSumOfEachRow) {
  ProgramBuilder builder("row_sums", kBuilderSymbols);
  const int x = builder.AddInput("x", DType::kF16);
  const int y = builder.AddOutput("y", DType::kF16);
  const int row = builder.AddOuterAxis(Size::Of(0));
  const int column = builder.AddInnerAxis(7);
  const int place = builder.AxisAt(row);
  const int start = builder.Binary(Opcode::kMultiply, place, builder.SizeOf(7));
  const int index = builder.Binary(Opcode::kAdd, start, builder.AxisAt(column));
  const int element = builder.Cast(DType::kF32, builder.Load(x, index));
  const int sum = builder.Reduce(Reduction::kSum, element, {column});
  builder.Store(y, place, builder.Cast(DType::kF16, sum));
  const LoopProgram program = std::move(builder).Finish();
  EXPECT_EQ(WhatIsWrong(program), "");
  EXPECT_EQ(ToText(program),
            "row_sums\n"
            "  input x: f16\n"
            "  output y: f16\n"
            "  outer axis 0: n\n"
            "  inner axis 1: 7\n"
            "  %0 = axis 0 : i64\n"
            "  %1 = 7 : i64\n"
            "  %2 = mul %0, %1 : i64\n"
            "  %3 = axis 1 : i64\n"
            "  %4 = add %2, %3 : i64\n"
            "  %5 = load x[%4] : f16\n"
            "  %6 = cast %5 : f32\n"
            "  %7 = sum %6 over 1 : f32\n"
            "  %8 = cast %7 : f16\n"
            "  store y[%0] = %8 : f16\n");
}

TEST(ProgramBuilderTest, EqualInstructionsAreMadeOnce) {
  ProgramBuilder builder("program", kBuilderSymbols);
  const int x = builder.AddInput("x", DType::kF32);
  const int one = builder.Load(x, builder.SizeOf(0));
  const int two = builder.Load(x, builder.SizeOf(1));
  EXPECT_EQ(builder.Load(x, builder.SizeOf(0)), one);
  EXPECT_EQ(builder.Binary(Opcode::kAdd, one, two), builder.Binary(Opcode::kAdd, two, one));
  EXPECT_NE(builder.Binary(Opcode::kSubtract, one, two),
            builder.Binary(Opcode::kSubtract, two, one));
  EXPECT_NE(builder.Constant(DType::kF32, 0.0), builder.Constant(DType::kF32, -0.0));
}

TEST(ProgramBuilderTest, IntegersOfNumbersThatDoNotFitAreTheNearest) {
  ProgramBuilder builder("program", kBuilderSymbols);
  EXPECT_EQ(builder.Constant(DType::kI64, 1e30), builder.Integer(DType::kI64, INT64_MAX));
  EXPECT_EQ(builder.Constant(DType::kI64, -1e30), builder.Integer(DType::kI64, INT64_MIN));
  EXPECT_EQ(builder.Constant(DType::kI64, std::nan("")), builder.Integer(DType::kI64, 0));
}

TEST(ProgramBuilderTest, IndexArithmeticIsFolded) {
  ProgramBuilder builder("program", kBuilderSymbols);
  const int n = builder.SizeOf(Size::Of(0));
  const int at = builder.AxisAt(builder.AddOuterAxis(Size::Of(0)));
  const int zero = builder.SizeOf(0);
  const int one = builder.SizeOf(1);
  EXPECT_EQ(builder.AxisAt(builder.AddOuterAxis(1)), zero);
  EXPECT_EQ(builder.Binary(Opcode::kAdd, at, zero), at);
  EXPECT_EQ(builder.Binary(Opcode::kAdd, zero, at), at);
  EXPECT_EQ(builder.Binary(Opcode::kSubtract, at, zero), at);
  EXPECT_EQ(builder.Binary(Opcode::kMultiply, one, at), at);
  EXPECT_EQ(builder.Binary(Opcode::kMultiply, at, zero), zero);
  EXPECT_EQ(builder.Binary(Opcode::kDivide, at, one), at);
  EXPECT_EQ(builder.Binary(Opcode::kRemainder, at, one), zero);
  const int product = builder.Binary(Opcode::kMultiply, n, builder.SizeOf(Size::Of(0) + 1));
  EXPECT_EQ(builder.AsSize(product), Size::Of(0) * Size::Of(0) + Size::Of(0));
}

TEST(ProgramBuilderTest, IntegersAreThoseThatTheTypeHolds) {
  ProgramBuilder builder("program");
  builder.Integer(DType::kU8, -1);
  builder.Integer(DType::kI8, 200);
  builder.Integer(DType::kBool, 2);
  builder.Integer(DType::kI32, -7);
  builder.Integer(DType::kI64, INT64_MIN);
  std::vector<int64_t> integers;
  for (const Instruction& made : std::move(builder).Finish().instructions) {
    integers.push_back(made.integer);
  }
  EXPECT_EQ(integers, std::vector<int64_t>({255, -56, 1, -7, INT64_MIN}));
}

TEST(ProgramBuilderTest, FloatsAreNotFolded) {
  ProgramBuilder builder("program");
  const int x = builder.Load(builder.AddInput("x", DType::kF32), builder.SizeOf(0));
  const int zero = builder.Constant(DType::kF32, 0);
  EXPECT_NE(builder.Binary(Opcode::kAdd, x, zero), x);
  EXPECT_NE(builder.Binary(Opcode::kMultiply, x, zero), zero);
}

}  // namespace
}  // namespace kiln::graph
