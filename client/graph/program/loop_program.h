// What one kernel computes, before any compiler is chosen: loops over axes around typed scalar
// instructions. Operators lower to it, the planner fuses it, every back end prints it. (The idea is
// Halide's and TVM's: an algorithm apart from its schedule. A LoopProgram is the algorithm; tiles,
// warps and vectors are the back end's.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/graph/program/dtype.h"
#include "client/graph/program/size.h"

namespace kiln::graph {

// Types of operands are the instruction's own, unless a comment says otherwise.
enum class Opcode : uint8_t {
  // Leaves.
  kConstant,  // `number` for floats, `integer` for the rest
  kSize,      // `size`, an i64
  kAxis,      // the position on axis `axis`, an i64
  kLoad,      // element operands[0] (i64, in elements) of buffer `buffer`, whose type it has;
              // with operands[1] (bool): where that is false nothing is read and the value is 0
  // One operand.
  kNegate,
  kAbsolute,
  kSquareRoot,
  kReciprocalSquareRoot,
  kExponential,
  kExponential2,
  kLogarithm,
  kLogarithm2,
  kSine,
  kCosine,
  kTangent,
  kArcSine,
  kArcCosine,
  kArcTangent,
  kHyperbolicSine,
  kHyperbolicCosine,
  kHyperbolicTangent,
  kArcHyperbolicSine,
  kArcHyperbolicCosine,
  kArcHyperbolicTangent,
  kErrorFunction,
  kFloor,
  kCeiling,
  kTruncate,
  kRoundToEven,
  kNot,  // bool: logical; integers: bitwise
  kIsNan,
  kIsInfinite,  // bool, of a float operand
  kCast,        // from the operand's type as C does it: to integers towards zero; to bool: != 0; to
                // fp8, fp16, bf16 to nearest even, fp8 saturating
  kBitCast,     // same number of bits
  // Two operands.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,     // integers: towards zero; by zero: any value, but no trap
  kRemainder,  // sign of the first operand, as C's % and fmod
  kFloorDivide,
  kFloorRemainder,  // integers: rounded down, sign of the divisor
  kMinimum,
  kMaximum,  // NaN if either is
  kPower,
  kArcTangent2,
  kAnd,
  kOr,
  kXor,  // bool: logical; integers: bitwise
  kShiftLeft,
  kShiftRight,  // by at least the bits: 0, or the sign
  kLess,
  kLessOrEqual,
  kEqual,
  kNotEqual,  // bool, of two operands of one type; NaN is unequal
  // Three operands.
  kSelect,       // operands[0] (bool) ? operands[1] : operands[2]
  kMultiplyAdd,  // operands[0] * operands[1] + operands[2], fused or not
  // Over axes.
  kReduce,  // operands[0] over all positions of the inner axes `axes`, by `reduction`
  // No value.
  kStore,  // operands[1] to element operands[0] (i64) of buffer `buffer`, whose type it has;
           // with operands[2] (bool): only where that is true
};

enum class Reduction : uint8_t {
  kSum,
  kProduct,
  kMinimum,
  kMaximum,
  kAnd,
  kOr,
  // The first position of the extreme, an i64: in row-major order of `axes`. kLast…: the last one.
  // NaN counts as the extreme.
  kFirstArgMinimum,
  kFirstArgMaximum,
  kLastArgMinimum,
  kLastArgMaximum,
};

enum class StoreKind : uint8_t {
  kPlain,
  kAtomicAdd,
  kAtomicMinimum,
  kAtomicMaximum,
};

struct Instruction {
  Opcode opcode = Opcode::kConstant;
  DType type = DType::kF32;   // of the result; of a store: of what is stored
  std::vector<int> operands;  // earlier instructions
  double number = 0;
  int64_t integer = 0;
  Size size;
  int axis = 0;
  int buffer = 0;
  std::vector<int> axes;
  Reduction reduction = Reduction::kSum;
  StoreKind store = StoreKind::kPlain;
};

struct Axis {
  Size extent;
  // Outer axes are the grid's: their positions are independent. Inner axes are loops within a
  // position of the outer ones: of each reduction over them, and of each store that uses them.
  bool is_inner = false;
};

struct Buffer {
  std::string name;  // "x0": an identifier, for messages and for the text
  DType type = DType::kF32;
  bool is_written = false;
  int64_t alignment = 16;  // in bytes
};

// Semantics: for every position of the outer axes, in any order and at once: every instruction in
// order. An instruction that uses an inner axis, itself or by its operands, has a value for each
// position of that axis; a reduction has one value again. No buffer is both read and written,
// unless each element is read before it is written and by the same position alone.
struct LoopProgram {
  std::string name;             // of the kernel: an identifier
  std::vector<Symbol> symbols;  // in the order of the kernel's parameters, behind the buffers
  std::vector<Buffer> buffers;  // in the order of the kernel's parameters
  std::vector<Axis> axes;       // outer ones first
  std::vector<Instruction> instructions;
};

// Empty, or what breaks the rules above, in one line: operands, types, axes, buffers.
std::string WhatIsWrong(const LoopProgram& program);
// The inner axes that each instruction has values for, ascending.
std::vector<std::vector<int>> InnerAxesOf(const LoopProgram& program);
// The last outer axis with more than one position, or -1.
int LastOuterAxis(const LoopProgram& program);
// As text, an instruction a line; for people and for tests.
std::string ToText(const LoopProgram& program);

}  // namespace kiln::graph
