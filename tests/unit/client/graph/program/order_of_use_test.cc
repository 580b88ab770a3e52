#include "client/graph/program/order_of_use.h"

#include <gtest/gtest.h>

#include "client/graph/program/program_builder.h"

namespace kiln::graph {
namespace {

// y = x0 - x1 * 2, each load made first or last.
LoopProgram Difference(bool is_reversed) {
  ProgramBuilder make("difference");
  const int first = make.AddInput("x0", DType::kF32);
  const int second = make.AddInput("x1", DType::kF32);
  const int output = make.AddOutput("y", DType::kF32);
  const int at = make.AxisAt(make.AddOuterAxis(4));
  int x0 = 0;
  if (!is_reversed) x0 = make.Load(first, at);
  const int x1 = make.Load(second, at);
  const int twice = make.Binary(Opcode::kMultiply, x1, make.Constant(DType::kF32, 2));
  if (is_reversed) x0 = make.Load(first, at);
  make.Store(output, at, make.Binary(Opcode::kSubtract, x0, twice));
  return std::move(make).Finish();
}

TEST(OrderOfUseTest, TheOrderOfMakingDoesNotMatter) {
  EXPECT_NE(ToText(Difference(false)), ToText(Difference(true)));
  EXPECT_EQ(ToText(InOrderOfUse(Difference(false))), ToText(InOrderOfUse(Difference(true))));
  EXPECT_EQ(WhatIsWrong(InOrderOfUse(Difference(true))), "");
}

TEST(OrderOfUseTest, WhatNothingNeedsIsLeftOutAndStoresComeLast) {
  ProgramBuilder make("stores");
  const int input = make.AddInput("x", DType::kF32);
  const int one = make.AddOutput("y", DType::kF32);
  const int two = make.AddOutput("z", DType::kF32);
  const int at = make.AxisAt(make.AddOuterAxis(4));
  make.Unary(Opcode::kSine, make.Load(input, at));
  make.Store(one, at, make.Constant(DType::kF32, 1));
  make.Store(two, at, make.Load(input, at));
  const LoopProgram program = InOrderOfUse(std::move(make).Finish());
  std::vector<Opcode> opcodes;
  for (const Instruction& each : program.instructions) opcodes.push_back(each.opcode);
  EXPECT_EQ(opcodes, (std::vector<Opcode>{Opcode::kAxis, Opcode::kConstant, Opcode::kLoad,
                                          Opcode::kStore, Opcode::kStore}));
  EXPECT_EQ(program.instructions.back().operands, (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace kiln::graph
