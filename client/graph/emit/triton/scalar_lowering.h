// What each opcode is in Triton IR, for values of one shape.
#pragma once

#include <vector>

#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/emit/triton/ir_builder.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// What values of the type are in the kernel: an fp8 is its bits, as an i8.
Scalar ValueScalar(DType type);
// What elements of the type are in memory: a bool is an i8, too.
Scalar MemoryScalar(DType type);
inline int ThreadsOf(int warps, const EmitOptions& options) {
  return warps * (options.backend == "hip" ? 64 : 32);
}

class ScalarLowering {
 public:
  ScalarLowering(IrBuilder& ir, const EmitOptions& options) : ir_(ir), options_(options) {}

  Value Constant(const Instruction& constant, const std::vector<int64_t>& shape = {});
  // An opcode that computes, casts or selects. `from` is the type of the last operand.
  Value Compute(const Instruction& instruction, DType from, const std::vector<Value>& operands);
  Value Cast(DType from, DType to, Value value);
  Value Binary(Opcode opcode, DType type, Value left, Value right);

  // The value of a bool or number as it is stored, and back.
  Value ToMemory(DType type, Value value);
  Value FromMemory(DType type, Value value);

 private:
  Value Unary(Opcode opcode, DType from, DType to, Value value);
  Value FloatUnary(Opcode opcode, DType type, Value value);
  Value FloatBinary(Opcode opcode, DType type, Value left, Value right);
  Value IntegerBinary(Opcode opcode, DType type, Value left, Value right);
  Value Divide(Opcode opcode, DType type, Value left, Value right);
  Value Shift(Opcode opcode, DType type, Value value, Value amount);
  Value Compare(Opcode opcode, DType type, Value left, Value right);
  Value ToFloat(DType from, DType to, Value value);
  Value ToInteger(DType from, DType to, Value value);
  Value Library(std::string_view function, DType type, const std::vector<Value>& operands);
  Value Number(Value like, double number);
  Value Whole(Value like, int64_t number);

  IrBuilder& ir_;
  const EmitOptions& options_;
};

}  // namespace kiln::graph::triton
