#include "client/graph/emit/thread_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "client/graph/program/program_builder.h"

namespace kiln::graph {
namespace {

// The sum of each row of [rows, columns], or of each column.
LoopProgram Sums(int64_t rows, int64_t columns, bool of_columns = false) {
  ProgramBuilder make("sums");
  const int x = make.AddInput("x", DType::kF32);
  const int y = make.AddOutput("y", DType::kF32);
  const int outer = make.AxisAt(make.AddOuterAxis(of_columns ? columns : rows));
  const int axis = make.AddInnerAxis(of_columns ? rows : columns);
  const int inner = make.AxisAt(axis);
  const int row = of_columns ? inner : outer;
  const int at = make.MultiplyAdd(row, make.SizeOf(columns), of_columns ? outer : inner);
  make.Store(y, outer, make.Reduce(Reduction::kSum, make.Load(x, at), {axis}));
  return std::move(make).Finish();
}

// y = x, of [rows, columns]; rows of x are `stride` apart and begin at `offset`.
LoopProgram Copy(DType type, Size columns, int64_t stride, int64_t offset = 0,
                 std::vector<Symbol> symbols = {}) {
  ProgramBuilder make("copy", std::move(symbols));
  const int x = make.AddInput("x", type);
  const int y = make.AddOutput("y", type);
  const int row = make.AxisAt(make.AddOuterAxis(6));
  const int column = make.AxisAt(make.AddOuterAxis(columns));
  const int from = make.MultiplyAdd(row, make.SizeOf(stride), column);
  const int to = make.MultiplyAdd(row, make.SizeOf(columns), column);
  make.Store(y, to, make.Load(x, make.Binary(Opcode::kAdd, from, make.SizeOf(offset))));
  return std::move(make).Finish();
}

int WideAccesses(const ThreadLayout& layout) {
  return static_cast<int>(std::ranges::count(layout.is_wide, true));
}

TEST(ThreadLayoutTest, LongRowsAreSharedByMoreThreads) {
  EXPECT_FALSE(LayoutFor(Sums(100, 31), 8).shares_positions);
  EXPECT_TRUE(LayoutFor(Sums(100, 32), 8).shares_positions);
  EXPECT_EQ(LayoutFor(Sums(100, 32), 8).threads, 32);
  EXPECT_EQ(LayoutFor(Sums(100, 1023), 8).threads, 64);
  EXPECT_EQ(LayoutFor(Sums(1'000'000, 100'000), 8).threads, 256);
}

TEST(ThreadLayoutTest, ManyColumnsHaveAThreadEachBecauseTheyAreNeighbours) {
  EXPECT_TRUE(LayoutFor(Sums(1000, 100, true), 8).shares_positions);
  EXPECT_FALSE(LayoutFor(Sums(1000, 100'000, true), 8).shares_positions);
}

TEST(ThreadLayoutTest, OneThreadKeepsTheOrderOfReadsAndWrites) {
  ProgramBuilder make("in_place");
  const int x = make.AddOutput("x", DType::kF32);
  const int axis = make.AddInnerAxis(4096);
  const int at = make.AxisAt(axis);
  make.Store(x, at, make.Reduce(Reduction::kMaximum, make.Load(x, at), {axis}));
  EXPECT_FALSE(LayoutFor(std::move(make).Finish(), 8).shares_positions);
}

TEST(ThreadLayoutTest, AThreadTakes16Bytes) {
  EXPECT_EQ(LayoutFor(Copy(DType::kF64, 24, 24), 8).elements, 2);
  EXPECT_EQ(LayoutFor(Copy(DType::kF32, 24, 24), 8).elements, 4);
  EXPECT_EQ(LayoutFor(Copy(DType::kF16, 24, 24), 8).elements, 8);
  EXPECT_EQ(LayoutFor(Copy(DType::kF16, 24, 24), 4).elements, 4);
}

TEST(ThreadLayoutTest, PaddedRowsAreReadWideWhereTheyAreAligned) {
  EXPECT_EQ(WideAccesses(LayoutFor(Copy(DType::kF32, 24, 28), 8)), 2);
  EXPECT_EQ(WideAccesses(LayoutFor(Copy(DType::kF32, 24, 30), 8)), 1);
  EXPECT_EQ(WideAccesses(LayoutFor(Copy(DType::kF32, 24, 28, 2), 8)), 1);
  EXPECT_EQ(WideAccesses(LayoutFor(Copy(DType::kF32, 23, 28), 8)), 1);
}

TEST(ThreadLayoutTest, LessAlignedBuffersAreReadElementByElement) {
  LoopProgram program = Copy(DType::kF32, 24, 24);
  program.buffers[0].alignment = 4;
  EXPECT_EQ(WideAccesses(LayoutFor(program, 8)), 1);
}

TEST(ThreadLayoutTest, SymbolsSayWhetherThereIsATail) {
  const Symbol odd{.name = "n", .min = 1, .max = 1000, .typical = 64, .multiple_of = 1};
  Symbol even = odd;
  even.multiple_of = 16;
  EXPECT_TRUE(LayoutFor(Copy(DType::kF32, Size::Of(0), 0, 0, {odd}), 8).has_tail);
  EXPECT_FALSE(LayoutFor(Copy(DType::kF32, Size::Of(0), 0, 0, {even}), 8).has_tail);
}

}  // namespace
}  // namespace kiln::graph
