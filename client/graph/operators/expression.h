// The language in which the operator table says what an elementwise operator computes:
//   "x * 0.5 * (1 + erf(x * 0.7071067811865476))"
//   "t = max(x, 0); select(approximate == 'tanh', t, t * alpha)"
// x, y and z are the inputs; pi, inf and nan are numbers; every other name is an attribute, unless
// `name = …;` stands before. Calls are of opcodes by name (opcode.h), and of functions made of
// them: sigmoid, softplus, log1p, expm1. has(y) is whether an input or an attribute is given.
// Operators are those of C: || && < <= > >= == != + - * / % - !. What is known of a condition when
// code is made, leaves one branch of a select.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/program/program_builder.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

class Expression {
 public:
  struct Node {
    enum class Kind { kNumber, kInput, kAttribute, kText, kHas, kCall };
    Kind kind = Kind::kNumber;
    double number = 0;
    int input = 0;
    std::string text;  // an attribute's name, or what stands between quotes
    Opcode opcode = Opcode::kAdd;
    std::vector<int> arguments;  // earlier nodes
  };

  // INVALID_ARGUMENT says where the text is wrong.
  [[nodiscard]] static absl::StatusOr<Expression> Parse(std::string_view text);

  const std::vector<Node>& nodes() const { return nodes_; }  // the last one is the result
  // False: values are only chosen, and need not be cast to a type that computes.
  bool Computes() const;

 private:
  friend class ExpressionParser;
  std::vector<Node> nodes_;
};

struct ExpressionInputs {
  std::vector<std::optional<int>> values;  // instructions; nothing for an omitted input
  const Attributes& attributes;            // with defaults; without those that have none
  DType type;                              // of numbers
};

// The instruction that has the expression's value.
[[nodiscard]] absl::StatusOr<int> EmitExpression(const Expression& expression,
                                                 const ExpressionInputs& inputs,
                                                 ProgramBuilder& builder);

}  // namespace kiln::graph
