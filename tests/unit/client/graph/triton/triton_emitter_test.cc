#include "client/graph/emit/triton/triton_emitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/graph/program/program_builder.h"

namespace kiln::graph {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// y[i] = opcode(x[i]) over `count` elements.
LoopProgram Elementwise(Opcode opcode, DType type, const Size& count,
                        std::vector<Symbol> symbols = {}) {
  ProgramBuilder builder("kernel", std::move(symbols));
  const int i = builder.AxisAt(builder.AddOuterAxis(count));
  const int x = builder.Load(builder.AddInput("x", type), i);
  builder.Store(builder.AddOutput("y", type), i, builder.Unary(opcode, x));
  return std::move(builder).Finish();
}

std::string TextOf(const LoopProgram& program, const EmitOptions& options = {}) {
  absl::StatusOr<EmittedKernel> kernel = EmitTriton(program, options);
  return kernel.ok() ? kernel->text : kernel.status().ToString();
}

TEST(TritonEmitterTest, BlocksThatAreAllWholeHaveNoMasks) {
  EXPECT_THAT(TextOf(Elementwise(Opcode::kNegate, DType::kF32, 1 << 20)), Not(HasSubstr("slt")));
  EXPECT_THAT(TextOf(Elementwise(Opcode::kNegate, DType::kF32, (1 << 20) + 1)), HasSubstr("slt"));
}

TEST(TritonEmitterTest, SymbolsThatAreMultiplesOfTheBlockNeedNoMasks) {
  const Symbol count{"count", 1024, 1 << 24, 1 << 20, 1024};
  const std::string text = TextOf(Elementwise(Opcode::kNegate, DType::kF32, Size::Of(0), {count}));
  EXPECT_THAT(text, HasSubstr("%count: i64 {tt.divisibility = 1024 : i32}"));
  EXPECT_THAT(text, Not(HasSubstr("slt")));
}

TEST(TritonEmitterTest, GridCoversTheOuterPositions) {
  absl::StatusOr<EmittedKernel> kernel =
      EmitTriton(Elementwise(Opcode::kNegate, DType::kF32, 1 << 20), {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->language, Language::kTritonIr);
  EXPECT_EQ(kernel->entry, "kernel");
  ASSERT_EQ(kernel->grid.size(), 1U);
  EXPECT_EQ(kernel->grid[0].extent, Size(1 << 20));
  EXPECT_EQ(kernel->grid[0].tile, 1024);
  EXPECT_EQ(kernel->threads, 128);
}

TEST(TritonEmitterTest, FunctionsAreThoseOfTheBackendsLibraryUnlessMathIsFast) {
  const LoopProgram program = Elementwise(Opcode::kExponential, DType::kF32, 100);
  EXPECT_THAT(TextOf(program), HasSubstr("\"__nv_expf\""));
  EXPECT_THAT(TextOf(program, {.backend = "hip"}), HasSubstr("\"__ocml_exp_f32\""));
  EXPECT_THAT(TextOf(program, {.fast_math = true}), HasSubstr("math.exp "));
}

TEST(TritonEmitterTest, ProgramThatBreaksTheRulesIsRefused) {
  LoopProgram program = Elementwise(Opcode::kNegate, DType::kF32, 100);
  program.instructions.back().operands[1] = 99;
  const absl::Status status = EmitTriton(program, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("kernel kernel: "));
}

TEST(TritonEmitterTest, AtomicStoresOfNarrowTypesAreUnimplementedByName) {
  ProgramBuilder builder("kernel");
  const int i = builder.AxisAt(builder.AddOuterAxis(8));
  const int x = builder.Load(builder.AddInput("x", DType::kBF16), i);
  builder.Store(builder.AddOutput("y", DType::kBF16), builder.Integer(DType::kI64, 0), x,
                std::nullopt, StoreKind::kAtomicAdd);
  const absl::Status status = EmitTriton(std::move(builder).Finish(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("atomic store of bf16"));
}

// A row is reversed in place. All at once that is right; block after block it is not.
LoopProgram ReversedInPlace(int64_t columns) {
  ProgramBuilder builder("kernel");
  const int column = builder.AxisAt(builder.AddInnerAxis(columns));
  const int buffer = builder.AddOutput("x", DType::kF32);
  const int last = builder.Integer(DType::kI64, columns - 1);
  const int x = builder.Load(buffer, builder.Binary(Opcode::kSubtract, last, column));
  builder.Store(buffer, column, x);
  return std::move(builder).Finish();
}

TEST(TritonEmitterTest, BufferIsNotReadInALoopAfterAnEarlierTurnHasWrittenIt) {
  EXPECT_TRUE(EmitTriton(ReversedInPlace(100), {}).ok());
  const absl::Status status = EmitTriton(ReversedInPlace(10000), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("buffer x is read"));
}

// The sum of each column of a matrix, or of each row.
LoopProgram Sums(bool of_columns) {
  ProgramBuilder builder("kernel");
  const int outer = builder.AxisAt(builder.AddOuterAxis(4096));
  const int axis = builder.AddInnerAxis(4096);
  const int inner = builder.AxisAt(axis);
  const int scaled = builder.Binary(Opcode::kMultiply, of_columns ? inner : outer,
                                    builder.Integer(DType::kI64, 4096));
  const int index = builder.Binary(Opcode::kAdd, scaled, of_columns ? outer : inner);
  const int x = builder.Load(builder.AddInput("x", DType::kF32), index);
  builder.Store(builder.AddOutput("y", DType::kF32), outer,
                builder.Reduce(Reduction::kSum, x, {axis}));
  return std::move(builder).Finish();
}

TEST(TritonEmitterTest, BlockIsWideAlongTheAxisWhosePositionsAreNeighboursInMemory) {
  EXPECT_THAT(TextOf(Sums(true)), HasSubstr("tensor<32x32x!tt.ptr<f32>>"));
  EXPECT_THAT(TextOf(Sums(false)), HasSubstr("tensor<4096x!tt.ptr<f32>>"));
}

TEST(TritonEmitterTest, ReductionsThatDoNotWaitForEachOtherShareALoop) {
  ProgramBuilder builder("kernel");
  const int row = builder.AxisAt(builder.AddOuterAxis(4));
  const int axis = builder.AddInnerAxis(100000);
  const int x = builder.Load(builder.AddInput("x", DType::kF32), builder.AxisAt(axis));
  const int sum = builder.Reduce(Reduction::kSum, x, {axis});
  const int squares =
      builder.Reduce(Reduction::kSum, builder.Binary(Opcode::kMultiply, x, x), {axis});
  builder.Store(builder.AddOutput("y", DType::kF32), row,
                builder.Binary(Opcode::kSubtract, squares, sum));
  const std::string text = TextOf(std::move(builder).Finish());
  EXPECT_EQ(text.find("scf.for"), text.rfind("scf.for")) << text;
}

}  // namespace
}  // namespace kiln::graph
