// Operators that the table's expressions describe.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "client/graph/operators/broadcast.h"
#include "client/graph/operators/constant_elements.h"
#include "client/graph/operators/fp8_cast.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

absl::Status WrongOperation(const Operation& operation, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", operation.name, what));
}

bool IsTaken(const Operator& op, DType type) {
  if (type == DType::kBool) return op.takes_bool;
  return IsFloat(type) ? op.takes_float : op.takes_integer;
}

// The first input of Where is a condition; those of Dropout and casts behind the first are not
// computed with.
bool IsComputedWith(const Operator& op, size_t input) {
  if (op.category == OpCategory::kIdentity || op.category == OpCategory::kCast) return input == 0;
  return op.name != "Where" || input > 0;
}

// What the operator works on, before it is widened to a type that computes.
absl::StatusOr<DType> CommonType(const Operator& op, const Segment& segment,
                                 const Operation& operation) {
  std::optional<DType> common;
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    const Value* value = InputAt(segment, operation, i);
    if (value == nullptr || !IsComputedWith(op, i)) continue;
    if (!IsTaken(op, value->type)) {
      return WrongOperation(operation,
                            fmt::format("input {} has type {}, which it does not take; cast it", i,
                                        FactsOf(value->type).name));
    }
    const bool is_lead = op.dtype == DTypeRule::kFirst && common;
    if (!is_lead) common = common ? PromotedType(*common, value->type) : value->type;
  }
  if (!common) return WrongOperation(operation, "an input is missing");
  return *common;
}

absl::StatusOr<DType> OutputType(const Operator& op, const Segment& segment,
                                 const Operation& operation) {
  const auto common = CommonType(op, segment, operation);
  if (!common.ok()) return common.status();
  switch (op.dtype) {
    case DTypeRule::kBool:
      return DType::kBool;
    case DTypeRule::kSecond: {
      const Value* second = InputAt(segment, operation, 1);
      if (second == nullptr) return WrongOperation(operation, "input 1 is missing");
      return second->type;
    }
    case DTypeRule::kAttribute: {
      const auto type = DTypeAttribute(operation, "to");
      if (!type) return WrongOperation(operation, "attribute \"to\" names no type");
      return *type;
    }
    default:
      return *common;
  }
}

// Whether the input may be another number than 0.
bool MayBeNonzero(const Segment& segment, const Operation& operation, size_t input) {
  const Value* value = InputAt(segment, operation, input);
  const auto elements = value == nullptr ? std::nullopt : ConstantElements(*value);
  return !elements || *elements != std::vector<double>{0};
}

// Input 2 of Dropout turns training on; input 1 is the part that is dropped then.
bool Trains(const Operator& op, const Segment& segment, const Operation& operation) {
  return op.name == "Dropout" && InputAt(segment, operation, 2) != nullptr &&
         MayBeNonzero(segment, operation, 2) && MayBeNonzero(segment, operation, 1);
}

absl::StatusOr<std::vector<TensorType>> ElementwiseOutputs(const Segment& segment,
                                                           const Operation& operation) {
  const Operator& op = *FindOperator(operation.name);
  const Value* first = InputAt(segment, operation, 0);
  if (first == nullptr) return WrongOperation(operation, "input 0 is missing");
  if (Trains(op, segment, operation)) {
    return absl::UnimplementedError("Dropout: training needs random numbers, which Kiln lacks");
  }
  const auto type = OutputType(op, segment, operation);
  if (!type.ok()) return type.status();
  if (op.name == "BitCast" && FactsOf(*type).bits != FactsOf(first->type).bits) {
    return absl::UnimplementedError("BitCast: types of other sizes are not lowered");
  }
  std::vector<Size> shape = first->shape;
  for (size_t i = 1; i < operation.inputs.size(); ++i) {
    const Value* value = InputAt(segment, operation, i);
    if (value == nullptr) continue;
    const bool is_spread = op.broadcast != BroadcastRule::kToFirst || IsComputedWith(op, i);
    if (!is_spread) continue;
    auto both = BroadcastShapes(shape, value->shape, segment.symbols);
    if (!both.ok()) return WrongOperation(operation, std::string(both.status().message()));
    shape = *std::move(both);
  }
  if (op.broadcast == BroadcastRule::kToFirst && shape != first->shape) {
    return WrongOperation(operation, "inputs have to fit the first one's shape");
  }
  std::vector<TensorType> outputs = {{*type, shape}};
  if (op.outputs_max > 1) outputs.push_back({DType::kBool, std::move(shape)});  // Dropout's mask
  return outputs;
}

// A power of integers is computed in f64, as NumPy's float power is.
DType ComputeType(const Operator& op, const Expression& expression, DType common) {
  if (op.name == "Pow" && !IsFloat(common)) return DType::kF64;
  return expression.Computes() ? FactsOf(common).compute : common;
}

int CastThroughCompute(DType type, int value, ProgramBuilder& builder) {
  const DType from = builder.TypeOf(value);
  if (from == type) return value;
  // Exact, and what a narrow float or integer is converted from is a type that computes.
  return builder.Cast(type, builder.Cast(FactsOf(from).compute, value));
}

class ElementwiseElement {
 public:
  ElementwiseElement(const Operator& op, const Operation& operation, const Position& position,
                     Elements& elements, DType common)
      : op_(op),
        operation_(operation),
        position_(position),
        elements_(elements),
        expression_(op.parsed_integer && !IsFloat(common) ? *op.parsed_integer : *op.parsed),
        compute_(ComputeType(op, expression_, common)) {}

  absl::StatusOr<int> Run(DType result) {
    const auto value = op_.category == OpCategory::kVariadic ? Folded() : Once();
    if (!value.ok()) return value.status();
    if (op_.name == "BitCast") return elements_.builder().BitCast(result, *value);
    if (!Saturates(result)) return CastToFp8(result, *value);
    return CastThroughCompute(result, *value, elements_.builder());
  }

 private:
  bool Saturates(DType result) const {
    const Attribute* const saturate = FindAttribute(operation_, "saturate");
    const bool is_fp8 = IsFloat(result) && FactsOf(result).bits == 8;
    return !is_fp8 || saturate == nullptr || *saturate != Attribute(int64_t{0});
  }

  int CastToFp8(DType result, int value) {
    ProgramBuilder& builder = elements_.builder();
    const DType from = builder.TypeOf(value);
    if (from == result) return value;
    const DType wide = from == DType::kF64 ? from : DType::kF32;
    return CastBeyondRange(result, CastThroughCompute(wide, value, builder), builder);
  }

  absl::StatusOr<int> Read(size_t input) {
    const int number = operation_.inputs[input];
    const Value& value = *InputAt(elements_.segment(), operation_, input);
    ProgramBuilder& builder = elements_.builder();
    const auto element = elements_.Read(number, BroadcastPosition(position_, value.shape, builder));
    if (!element.ok() || !IsComputedWith(op_, input)) return element;
    return CastThroughCompute(compute_, *element, builder);
  }

  absl::StatusOr<int> Emit(std::vector<std::optional<int>> values) {
    const Attributes attributes = WithDefaults(op_, operation_.attributes);
    return EmitExpression(expression_, {std::move(values), attributes, compute_},
                          elements_.builder());
  }

  absl::StatusOr<int> Once() {
    std::vector<std::optional<int>> values;
    for (size_t i = 0; i < operation_.inputs.size(); ++i) {
      values.emplace_back();
      const bool is_used = IsComputedWith(op_, i) || op_.category == OpCategory::kTernary;
      if (!is_used || InputAt(elements_.segment(), operation_, i) == nullptr) continue;
      const auto value = Read(i);
      if (!value.ok()) return value.status();
      values.back() = *value;
    }
    return Emit(std::move(values));
  }

  absl::StatusOr<int> Folded() {
    auto sum = Read(0);
    for (size_t i = 1; sum.ok() && i < operation_.inputs.size(); ++i) {
      const auto next = Read(i);
      if (!next.ok()) return next.status();
      sum = Emit({*sum, *next});
    }
    if (!sum.ok() || op_.name != "Mean") return sum;
    ProgramBuilder& builder = elements_.builder();
    const auto count = static_cast<double>(operation_.inputs.size());
    return builder.Binary(Opcode::kDivide, *sum, builder.Constant(compute_, count));
  }

  const Operator& op_;
  const Operation& operation_;
  const Position& position_;
  Elements& elements_;
  const Expression& expression_;
  DType compute_;
};

absl::StatusOr<int> ElementwiseElementOf(const Operation& operation, int output,
                                         const Position& position, Elements& elements) {
  const Operator& op = *FindOperator(operation.name);
  // Dropout's mask: without training nothing is dropped.
  if (output == 1) return elements.builder().Integer(DType::kBool, 1);
  const auto common = CommonType(op, elements.segment(), operation);
  if (!common.ok()) return common.status();
  const auto result = OutputType(op, elements.segment(), operation);
  if (!result.ok()) return result.status();
  return ElementwiseElement(op, operation, position, elements, *common).Run(*result);
}

constexpr LoweringRule kElementwiseRule = {.outputs = ElementwiseOutputs,
                                           .element = ElementwiseElementOf};

}  // namespace

const LoweringRule* FindElementwiseRule(std::string_view op) {
  const Operator* found = FindOperator(op);
  return found != nullptr && found->parsed ? &kElementwiseRule : nullptr;
}

}  // namespace kiln::graph
