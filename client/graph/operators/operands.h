// What lowering rules ask of an operation: shapes and types of its inputs, its attributes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/operators/lowering.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

using Shape = std::vector<Size>;
using Outputs = std::vector<TensorType>;

// For all values of the symbols. False where that is not known.
bool IsAtMost(const Size& one, const Size& other, const std::vector<Symbol>& symbols);

class Operands {
 public:
  // Both must outlive it.
  Operands(const Segment& segment, const Operation& operation)
      : segment_(segment), operation_(operation) {}

  const Operation& operation() const { return operation_; }
  size_t inputs() const { return operation_.inputs.size(); }
  size_t outputs() const { return operation_.outputs.size(); }
  bool Has(size_t input) const;
  // The number of the value.
  int Number(size_t input) const { return operation_.inputs[input]; }
  const Value& Input(size_t input) const;
  const Value& Output(size_t output) const;
  const Shape& ShapeOf(size_t input) const { return Input(input).shape; }
  int64_t Rank(size_t input) const { return static_cast<int64_t>(ShapeOf(input).size()); }
  DType TypeOf(size_t input) const { return Input(input).type; }

  bool HasAttribute(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string String(std::string_view name, std::string_view otherwise) const;
  // Nothing where the attribute is absent or names no type.
  std::optional<DType> Type(std::string_view name) const;
  // One integer is a list of one.
  std::optional<std::vector<int64_t>> Ints(std::string_view name) const;
  // The attribute, or else the elements of the constant input. Nothing where neither is given;
  // an error where the input is no constant.
  absl::StatusOr<std::optional<std::vector<int64_t>>> IntsOrInput(std::string_view name,
                                                                  size_t input) const;
  // As IntsOrInput, for numbers.
  absl::StatusOr<std::optional<std::vector<double>>> NumbersOrInput(std::string_view name,
                                                                    size_t input) const;
  // A dimension of `rank`; negative ones count from the end.
  absl::StatusOr<size_t> Axis(int64_t axis, int64_t rank) const;
  bool IsAtMost(const Size& one, const Size& other) const {
    return graph::IsAtMost(one, other, segment_.symbols);
  }
  // "Softmax: message".
  absl::Status Error(std::string_view message) const;
  // UNIMPLEMENTED: the operation is right, and this lowering does not have it.
  absl::Status Missing(std::string_view message) const;
  // Missing, since elements beyond the ends of a dimension are those within it.
  absl::Status MayBeEmpty(const Size& extent) const;
  std::string Text(const Shape& shape) const;

 private:
  const Attribute* Find(std::string_view name) const;

  const Segment& segment_;
  const Operation& operation_;
};

// From a rule on Operands to one that LoweringRule takes.
template <absl::StatusOr<Outputs> (*kRule)(const Operands&)>
absl::StatusOr<Outputs> Infer(const Segment& segment, const Operation& operation) {
  return kRule(Operands(segment, operation));
}

// size / divisor, where the result is a polynomial whatever the symbols are.
std::optional<Size> Quotient(const Size& size, const Size& divisor);
// Rounded down. Nothing where that is no polynomial.
std::optional<Size> FloorQuotient(const Size& size, int64_t divisor);
// NumPy's broadcasting of two shapes; nothing where they do not fit.
std::optional<Shape> BroadcastShape(const Shape& one, const Shape& other);

}  // namespace kiln::graph
