// Accumulators of reductions: what they start from, and how two become one.
#pragma once

#include "client/graph/emit/triton/scalar_lowering.h"

namespace kiln::graph::triton {

// One reduction keeps one value, or, for the position of an extreme, a value and an i64. Integers
// and bools of less than 32 bits are kept as i32.
class Accumulator {
 public:
  using Values = IrBuilder::Values;

  // `type` is the operand's.
  Accumulator(IrBuilder& ir, ScalarLowering& scalars, Reduction reduction, DType type);

  Values Start(const std::vector<int64_t>& shape);
  // What one element adds. `position` has the shape of `value`.
  Values Widen(Value value, Value position);
  Values Combine(const Values& left, const Values& right);
  // The reduction's result.
  Value Result(const Values& values);
  bool NeedsPosition() const { return is_argument_; }

 private:
  Value StartNumber(const Type& type);

  IrBuilder& ir_;
  ScalarLowering& scalars_;
  Reduction reduction_;
  DType type_;
  DType kept_;
  bool is_argument_;
  bool is_maximum_;
  bool is_first_;
};

}  // namespace kiln::graph::triton
