#include "tests/testing/graph/program_interpreter.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "client/graph/program/program_builder.h"
#include "tests/testing/graph/narrow_float.h"

namespace kiln::graph {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NarrowFloatTest, RoundsToNearestEvenAndOverflowsAsTheFormatSays) {
  EXPECT_EQ(RoundTo(DType::kF16, 2049), 2048);
  EXPECT_EQ(RoundTo(DType::kF16, 2051), 2052);
  EXPECT_EQ(RoundTo(DType::kF16, 65519), 65504);
  EXPECT_EQ(RoundTo(DType::kF16, 65520), kInfinity);
  EXPECT_EQ(RoundTo(DType::kF16, std::ldexp(1.5, -25)), std::ldexp(1, -24));
  EXPECT_EQ(RoundTo(DType::kF16, std::ldexp(1, -25)), 0);
  EXPECT_EQ(RoundTo(DType::kBF16, 257), 256);
  EXPECT_EQ(RoundTo(DType::kF8E4M3, -500), -448);
  EXPECT_EQ(RoundTo(DType::kF8E5M2, kInfinity), 57344);
}

TEST(NarrowFloatTest, EachPatternOfBitsIsANumberThatHasIt) {
  for (const DType type : {DType::kF8E4M3, DType::kF8E5M2, DType::kBF16, DType::kF16}) {
    for (uint64_t bits = 0; bits < 1ULL << FactsOf(type).bits; ++bits) {
      const double number = FromBits(type, bits);
      if (std::isnan(number)) continue;
      EXPECT_EQ(ToBits(type, number), bits);
      if (std::isfinite(number)) {
        EXPECT_EQ(RoundTo(type, number), number);
      }
    }
  }
  EXPECT_EQ(FromBits(DType::kF16, 0x3c00), 1);
  EXPECT_EQ(FromBits(DType::kBF16, 0xc000), -2);
  EXPECT_EQ(FromBits(DType::kF8E4M3, 0x7e), 448);
  EXPECT_TRUE(std::isnan(FromBits(DType::kF8E4M3, 0x7f)));
  EXPECT_EQ(FromBits(DType::kF8E5M2, 0x7c), kInfinity);
}

TEST(ProgramInterpreterTest, SumsRowsOfASymbolicSize) {
  ProgramBuilder make("row_sums", {{.name = "rows"}});
  const int x = make.AddInput("x", DType::kF32);
  const int y = make.AddOutput("y", DType::kF32);
  const int row = make.AxisAt(make.AddOuterAxis(Size::Of(0)));
  const int inner = make.AddInnerAxis(3);
  const int index = make.Binary(Opcode::kAdd, make.Binary(Opcode::kMultiply, row, make.SizeOf(3)),
                                make.AxisAt(inner));
  make.Store(y, row, make.Reduce(Reduction::kSum, make.Load(x, index), {inner}));
  const LoopProgram program = std::move(make).Finish();

  std::vector<TestBuffer> buffers = {TestBuffer::Of(DType::kF32, {1, 2, 3, 10, 20, 30}),
                                     TestBuffer(DType::kF32, 2)};
  ASSERT_TRUE(Interpret(program, {2}, buffers).ok());
  EXPECT_THAT(buffers[1].Numbers(), ElementsAre(6, 60));

  EXPECT_THAT(std::string(Interpret(program, {3}, buffers).message()),
              HasSubstr("element 6 of buffer x, which has 6"));
}

// y[i] = reduction over x, for a single i.
std::vector<double> Reduced(Reduction reduction, const std::vector<double>& numbers) {
  ProgramBuilder make("reduced");
  const int x = make.AddInput("x", DType::kF32);
  const int y = make.AddOutput("y", DType::kI64);
  const int inner = make.AddInnerAxis(static_cast<int64_t>(numbers.size()));
  const int value = make.Reduce(reduction, make.Load(x, make.AxisAt(inner)), {inner});
  make.Store(y, make.SizeOf(0), make.Cast(DType::kI64, value));
  std::vector<TestBuffer> buffers = {TestBuffer::Of(DType::kF32, numbers),
                                     TestBuffer(DType::kI64, 1)};
  EXPECT_TRUE(Interpret(std::move(make).Finish(), {}, buffers).ok());
  return buffers[1].Numbers();
}

TEST(ProgramInterpreterTest, FindsTheFirstAndTheLastOfEqualExtremes) {
  EXPECT_THAT(Reduced(Reduction::kFirstArgMaximum, {1, 3, 3, 2}), ElementsAre(1));
  EXPECT_THAT(Reduced(Reduction::kLastArgMaximum, {1, 3, 3, 2}), ElementsAre(2));
  EXPECT_THAT(Reduced(Reduction::kFirstArgMinimum, {1, 0, 5, 0}), ElementsAre(1));
  EXPECT_THAT(Reduced(Reduction::kLastArgMinimum, {1, 0, 5, 0}), ElementsAre(3));
}

TEST(ProgramInterpreterTest, NanIsTheExtremeOfAnArgumentReduction) {
  EXPECT_THAT(Reduced(Reduction::kFirstArgMaximum, {1, kNan, 9, kNan}), ElementsAre(1));
  EXPECT_THAT(Reduced(Reduction::kLastArgMinimum, {kNan, 1, kNan, -9}), ElementsAre(2));
}

TEST(ProgramInterpreterTest, LoadsNothingWhereTheMaskIsFalse) {
  ProgramBuilder make("masked");
  const int x = make.AddInput("x", DType::kI32);
  const int y = make.AddOutput("y", DType::kI32);
  const int at = make.AxisAt(make.AddOuterAxis(4));
  const int is_inside = make.Binary(Opcode::kLess, at, make.SizeOf(2));
  make.Store(y, at, make.Load(x, at, is_inside));
  std::vector<TestBuffer> buffers = {TestBuffer::Of(DType::kI32, {7, -8}),
                                     TestBuffer::Of(DType::kI32, {1, 1, 1, 1})};
  ASSERT_TRUE(Interpret(std::move(make).Finish(), {}, buffers).ok());
  EXPECT_THAT(buffers[1].Numbers(), ElementsAre(7, -8, 0, 0));
}

TEST(ProgramInterpreterTest, AddsUpWhatIsStoredAtomically) {
  ProgramBuilder make("histogram");
  const int x = make.AddInput("x", DType::kI64);
  const int y = make.AddOutput("y", DType::kF16);
  const int at = make.AxisAt(make.AddOuterAxis(4));
  make.Store(y, make.Load(x, at), make.Constant(DType::kF16, 0.5), std::nullopt,
             StoreKind::kAtomicAdd);
  std::vector<TestBuffer> buffers = {TestBuffer::Of(DType::kI64, {1, 0, 1, 1}),
                                     TestBuffer(DType::kF16, 2)};
  ASSERT_TRUE(Interpret(std::move(make).Finish(), {}, buffers).ok());
  EXPECT_THAT(buffers[1].Numbers(), ElementsAre(0.5, 1.5));
}

}  // namespace
}  // namespace kiln::graph
