#include "client/graph/emit/ptx.h"

#include <gmock/gmock.h>

#include "client/graph/program/program_builder.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

LoopProgram Applied(Opcode opcode) {
  ProgramBuilder make("applied");
  const int x = make.AddInput("x", DType::kF32);
  const int y = make.AddOutput("y", DType::kF32);
  const int at = make.AxisAt(make.AddOuterAxis(100));
  make.Store(y, at, make.Unary(opcode, make.Load(x, at)));
  return std::move(make).Finish();
}

TEST(PtxTest, SaysByNameWhichFunctionItLacks) {
  const auto kernel = EmitPtx(Applied(Opcode::kErrorFunction), {.fast_math = true});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("erf of f32"));
}

TEST(PtxTest, TakesApproximationsWithFastMathAlone) {
  EXPECT_EQ(EmitPtx(Applied(Opcode::kSine), {}).status().code(), absl::StatusCode::kUnimplemented);
  const auto fast = EmitPtx(Applied(Opcode::kSine), {.fast_math = true});
  ASSERT_TRUE(fast.ok());
  EXPECT_THAT(fast->text, HasSubstr("sin.approx.f32"));
  EXPECT_THAT(EmitPtx(Applied(Opcode::kSquareRoot), {})->text, Not(HasSubstr("approx")));
}

TEST(PtxTest, LeavesInnerAxesToOtherBackEnds) {
  ProgramBuilder make("rows");
  const int y = make.AddOutput("y", DType::kI64);
  const int at = make.AxisAt(make.AddInnerAxis(4));
  make.Store(y, at, at);
  EXPECT_EQ(EmitPtx(std::move(make).Finish(), {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(PtxTest, GridHasAThreadForFourNeighbours) {
  const auto kernel = EmitPtx(Applied(Opcode::kExponential), {});
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->language, Language::kPtx);
  EXPECT_EQ(kernel->grid[0].extent, Size(100));
  EXPECT_EQ(kernel->grid[0].tile, 4 * kernel->threads);
  EXPECT_THAT(kernel->text, HasSubstr("ld.global.nc.v4.f32"));
}

}  // namespace
}  // namespace kiln::graph
