#include "client/graph/program/loop_program.h"

#include <gtest/gtest.h>

#include "client/graph/program/opcode.h"
#include "client/graph/program/program_builder.h"

namespace kiln::graph {
namespace {

// y[i] = sum over j of x[i * 4 + j]; instruction 4 is the load, 5 the sum, 6 the store.
LoopProgram RowSums() {
  ProgramBuilder builder("sums");
  builder.AddInput("x", DType::kF32);
  builder.AddOutput("y", DType::kF32);
  builder.AddOuterAxis(8);
  builder.AddInnerAxis(4);
  const int row = builder.AxisAt(0);                                                         // 0
  const int start = builder.Binary(Opcode::kMultiply, row, builder.SizeOf(4));               // 2
  const int load = builder.Load(0, builder.Binary(Opcode::kAdd, start, builder.AxisAt(1)));  // 5
  builder.Store(1, row, builder.Reduce(Reduction::kSum, load, {1}));                         // 7
  return std::move(builder).Finish();
}

TEST(LoopProgramTest, InnerAxesEndAtTheirReduction) {
  const LoopProgram program = RowSums();
  EXPECT_EQ(WhatIsWrong(program), "");
  const std::vector<std::vector<int>> expected = {{}, {}, {}, {1}, {1}, {1}, {}, {}};
  EXPECT_EQ(InnerAxesOf(program), expected);
}

TEST(LoopProgramTest, EachOpcodeIsFoundByItsName) {
  for (int i = 0; i <= static_cast<int>(Opcode::kStore); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    EXPECT_EQ(ParseOpcode(FactsOf(opcode).name), opcode);
  }
  EXPECT_EQ(ParseOpcode("add2"), std::nullopt);
}

void ExpectWrong(void (*change)(LoopProgram&), const std::string& part) {
  LoopProgram program = RowSums();
  change(program);
  EXPECT_NE(WhatIsWrong(program).find(part), std::string::npos) << WhatIsWrong(program);
}

TEST(LoopProgramTest, TellsWhatIsWrongWithNamesAndAxes) {
  using P = LoopProgram;
  ExpectWrong([](P& p) { p.name = "1st"; }, "no identifier");
  ExpectWrong([](P& p) { p.buffers[1].name = "x"; }, "twice");
  ExpectWrong([](P& p) { p.axes[0].is_inner = true, p.axes[1].is_inner = false; }, "is outer");
  ExpectWrong([](P& p) { p.axes[0].extent = -1; }, "negative");
  ExpectWrong([](P& p) { p.axes[0].extent = Size::Of(0); }, "lacks");
  ExpectWrong([](P& p) { p.axes[0].extent = Size(INT64_MAX) + 1; }, "overflows");
}

TEST(LoopProgramTest, TellsWhatIsWrongWithInstructions) {
  using P = LoopProgram;
  ExpectWrong([](P& p) { p.instructions[0].axis = 2; }, "no axis 2");
  ExpectWrong([](P& p) { p.buffers[0].type = p.instructions[5].type = DType::kI4; }, "4 bits");
  ExpectWrong([](P& p) { p.instructions[0].type = DType::kI32; }, "i64 is needed");
  ExpectWrong([](P& p) { p.instructions[2].operands = {0}; }, "has 1 operands");
  ExpectWrong([](P& p) { p.instructions[2].operands[1] = 2; }, "no earlier");
  ExpectWrong([](P& p) { p.instructions[5].buffer = 7; }, "no buffer 7");
  ExpectWrong([](P& p) { p.instructions[5].type = DType::kF64; }, "f32 is needed");
  ExpectWrong([](P& p) { p.instructions[6].axes = {0}; }, "no inner axis");
  ExpectWrong([](P& p) { p.instructions[6].axes = {}; }, "no axis");
  ExpectWrong([](P& p) { p.instructions[6].reduction = Reduction::kAnd; }, "does not take f32");
  ExpectWrong([](P& p) { p.instructions[7].buffer = 0; }, "not for writing");
  ExpectWrong([](P& p) { p.instructions[7].operands.push_back(0); }, "bool is needed");
}

TEST(LoopProgramTest, NarrowFloatsHaveToBeCastBeforeTheyCompute) {
  ProgramBuilder builder("program");
  const int x = builder.Load(builder.AddInput("x", DType::kF16), builder.SizeOf(0));
  builder.Unary(Opcode::kExponential, x);
  EXPECT_NE(WhatIsWrong(std::move(builder).Finish()).find("cast f16 to f32"), std::string::npos);
}

TEST(LoopProgramTest, ABufferIsReadBeforeItIsWritten) {
  ProgramBuilder builder("program");
  const int x = builder.AddOutput("x", DType::kF32);
  const int zero = builder.SizeOf(0);
  builder.Store(x, zero, builder.Load(x, zero));
  builder.Store(x, builder.SizeOf(1), builder.Load(x, builder.SizeOf(1)));
  EXPECT_NE(WhatIsWrong(std::move(builder).Finish()).find("is written before"), std::string::npos);
}

}  // namespace
}  // namespace kiln::graph
