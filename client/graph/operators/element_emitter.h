// Emits the element of one output: Operands, and short words for instructions.
#pragma once

#include <vector>

#include "client/graph/operators/operands.h"
#include "storage/base/status.h"

namespace kiln::graph {

// An inner axis and its position.
struct Loop {
  int axis = 0;
  int at = 0;
};

// Values are numbers of instructions. The first error of a Read stays and comes out of Result;
// until then a wrong Read gives 0.
class ElementEmitter : public Operands {
 public:
  ElementEmitter(const Operation& operation, Elements& elements)
      : Operands(elements.segment(), operation), elements_(elements), make_(elements.builder()) {}

  // In the input's own type.
  int Read(size_t input, const Position& position);
  int ReadAs(DType type, size_t input, const Position& position);
  // `otherwise` where the condition is false; nothing is read there.
  int ReadIf(int condition, DType type, size_t input, const Position& position, int otherwise);
  // Until EndGuard nothing is read where the condition is false, and what is read is 0 there.
  void BeginGuard(int condition) { elements_.BeginGuard(condition); }
  void EndGuard() { elements_.EndGuard(); }
  // An element of an input that holds indices into `extent` elements, of which negative ones count
  // from the end.
  int ReadIndex(size_t input, const Position& position, const Size& extent);
  // The position in an input that is broadcast, aligned at the last dimension.
  Position Broadcast(size_t input, const Position& position) const;
  absl::StatusOr<int> Result(int value) const;

  Loop NewLoop(const Size& extent);
  int Reduce(Reduction reduction, int x, const std::vector<Loop>& loops);
  int Sum(int x, const std::vector<Loop>& loops) { return Reduce(Reduction::kSum, x, loops); }

  int Of(const Size& size) const { return make_.SizeOf(size); }
  int Number(DType type, double number) const { return make_.Constant(type, number); }
  using Operands::Number;
  int Cast(DType type, int x) const { return make_.Cast(type, x); }
  DType TypeOfValue(int x) const { return make_.TypeOf(x); }
  int Add(int x, int y) const { return make_.Binary(Opcode::kAdd, x, y); }
  int Subtract(int x, int y) const { return make_.Binary(Opcode::kSubtract, x, y); }
  int Multiply(int x, int y) const { return make_.Binary(Opcode::kMultiply, x, y); }
  int Divide(int x, int y) const { return make_.Binary(Opcode::kDivide, x, y); }
  int Remainder(int x, int y) const { return make_.Binary(Opcode::kRemainder, x, y); }
  int Minimum(int x, int y) const { return make_.Binary(Opcode::kMinimum, x, y); }
  int Maximum(int x, int y) const { return make_.Binary(Opcode::kMaximum, x, y); }
  int Less(int x, int y) const { return make_.Binary(Opcode::kLess, x, y); }
  int LessOrEqual(int x, int y) const { return make_.Binary(Opcode::kLessOrEqual, x, y); }
  int Equal(int x, int y) const { return make_.Binary(Opcode::kEqual, x, y); }
  int And(int x, int y) const { return make_.Binary(Opcode::kAnd, x, y); }
  int Select(int condition, int x, int y) const { return make_.Select(condition, x, y); }
  int Unary(Opcode opcode, int x) const { return make_.Unary(opcode, x); }
  int Binary(Opcode opcode, int x, int y) const { return make_.Binary(opcode, x, y); }
  // 0 <= x < extent.
  int IsWithin(int x, const Size& extent) const;

  ProgramBuilder& make() const { return make_; }

 private:
  Elements& elements_;
  ProgramBuilder& make_;
  absl::Status status_;
};

// From a rule on an emitter to one that LoweringRule takes. The result is cast to the output's
// type. The rule is (ElementEmitter&, int output, const Position&) and gives an int or a StatusOr
// of one.
template <auto kRule>
absl::StatusOr<int> Emit(const Operation& operation, int output, const Position& position,
                         Elements& elements) {
  ElementEmitter emit(operation, elements);
  KILN_ASSIGN_OR_RETURN(const int value, absl::StatusOr<int>(kRule(emit, output, position)));
  const auto number = static_cast<size_t>(operation.outputs[static_cast<size_t>(output)]);
  return emit.Result(emit.Cast(elements.segment().values[number].type, value));
}

}  // namespace kiln::graph
