// Makes LoopPrograms. Values are numbers of instructions. A value of 4 bits has the type that it
// computes in, i8 or u8, and a number within its range.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// Equal pure instructions are made once, and trivial index arithmetic is folded: sums and products
// of sizes, x + 0, x * 1, x * 0, a position on an axis of extent 1. What the caller passes has to
// keep the rules of LoopProgram; WhatIsWrong tells.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name, std::vector<Symbol> symbols = {});

  int AddInput(std::string name, DType type);
  int AddOutput(std::string name, DType type);
  // Outer axes first.
  int AddOuterAxis(Size extent) { return AddAxis(std::move(extent), false); }
  int AddInnerAxis(Size extent) { return AddAxis(std::move(extent), true); }

  // `number` in the type, rounded as C does it.
  int Constant(DType type, double number);
  int Integer(DType type, int64_t integer);  // exact, for 64-bit types
  int SizeOf(const Size& size);              // an i64
  int AxisAt(int axis);                      // an i64
  int Load(int buffer, int index, std::optional<int> mask = std::nullopt);
  void Store(int buffer, int index, int value, std::optional<int> mask = std::nullopt,
             StoreKind kind = StoreKind::kPlain);
  int Unary(Opcode opcode, int x);
  int Binary(Opcode opcode, int x, int y);
  int Cast(DType type, int x);  // x itself where it has the type; to 4 bits, its low ones
  int BitCast(DType type, int x);
  int Select(int condition, int x, int y);
  int MultiplyAdd(int x, int y, int z);
  int Reduce(Reduction reduction, int x, std::vector<int> axes);

  DType TypeOf(int value) const { return At(value).type; }
  // The size that an i64 is in each position, where it is the same in all.
  std::optional<Size> AsSize(int value) const;
  LoopProgram Finish() && { return std::move(program_); }

 private:
  using Key = std::tuple<Opcode, DType, std::vector<int>, uint64_t, int64_t, std::string, int, int,
                         std::vector<int>, Reduction>;

  const Instruction& At(int value) const {
    return program_.instructions[static_cast<size_t>(value)];
  }
  int AddAxis(Size extent, bool is_inner);
  int LowBits(DType type, int x);
  int AddBuffer(std::string name, DType type, bool is_written);
  int Make(Instruction instruction);
  std::optional<int> Folded(Opcode opcode, int x, int y);
  bool IsNumber(int value, int64_t number) const;

  LoopProgram program_;
  std::map<Key, int> made_;
};

}  // namespace kiln::graph
