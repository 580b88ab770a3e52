// Operators that the table's expressions describe.
#include <fmt/format.h>

#include "client/graph/operators/constant_elements.h"
#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/fp8_cast.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

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

// The type that holds the values of both, as PyTorch has it.
DType PromotedType(DType one, DType two) {
  if (one == two) return one;
  const DTypeFacts& a = FactsOf(one);
  const DTypeFacts& b = FactsOf(two);
  if (a.kind != b.kind && (a.kind == DTypeClass::kFloat || b.kind == DTypeClass::kFloat)) {
    return a.kind == DTypeClass::kFloat ? one : two;
  }
  if (a.kind == b.kind) {
    if (a.bits != b.bits) return a.bits > b.bits ? one : two;
    return DType::kF32;  // two narrow floats, neither of which holds the other
  }
  if (one == DType::kBool || two == DType::kBool) return one == DType::kBool ? two : one;
  const bool one_is_signed = a.kind == DTypeClass::kSigned;
  const DTypeFacts& sign = one_is_signed ? a : b;
  const int bits = one_is_signed ? b.bits : a.bits;
  if (sign.bits > bits) return sign.type;
  if (bits < 8) return DType::kI8;
  if (bits < 16) return DType::kI16;
  return bits < 32 ? DType::kI32 : DType::kI64;
}

// What the operator works on, before it is widened to a type that computes.
absl::StatusOr<DType> CommonType(const Operator& op, const Operands& operands) {
  std::optional<DType> common;
  for (size_t i = 0; i < operands.inputs(); ++i) {
    if (!operands.Has(i) || !IsComputedWith(op, i)) continue;
    const DType type = operands.TypeOf(i);
    if (!IsTaken(op, type)) {
      return operands.Error(fmt::format("input {} has type {}, which it does not take; cast it", i,
                                        FactsOf(type).name));
    }
    const bool is_lead = op.dtype == DTypeRule::kFirst && common;
    if (!is_lead) common = common ? PromotedType(*common, type) : type;
  }
  if (!common) return operands.Error("an input is missing");
  return *common;
}

absl::StatusOr<DType> OutputType(const Operator& op, const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const DType common, CommonType(op, operands));
  switch (op.dtype) {
    case DTypeRule::kBool:
      return DType::kBool;
    case DTypeRule::kSecond:
      return operands.TypeOf(1);
    case DTypeRule::kAttribute: {
      const auto type = operands.Type("to");
      if (!type) return operands.Error("attribute \"to\" names no type");
      return *type;
    }
    default:
      return common;
  }
}

// Whether the input may be another number than 0.
bool MayBeNonzero(const Operands& operands, size_t input) {
  const auto elements =
      operands.Has(input) ? ConstantElements(operands.Input(input)) : std::nullopt;
  return !elements || *elements != std::vector<double>{0};
}

// Input 2 of Dropout turns training on; input 1 is the part that is dropped then.
bool Trains(const Operator& op, const Operands& operands) {
  return op.name == "Dropout" && operands.Has(2) && MayBeNonzero(operands, 2) &&
         MayBeNonzero(operands, 1);
}

absl::StatusOr<Outputs> ElementwiseOutputs(const Operands& operands) {
  const Operator& op = *FindOperator(operands.operation().name);
  if (Trains(op, operands)) {
    return operands.Missing("training needs random numbers, which Kiln lacks");
  }
  KILN_ASSIGN_OR_RETURN(const DType type, OutputType(op, operands));
  if (op.name == "BitCast" && FactsOf(type).bits != FactsOf(operands.TypeOf(0)).bits) {
    return operands.Missing("types of other sizes are not lowered");
  }
  Shape shape = operands.ShapeOf(0);
  for (size_t i = 1; i < operands.inputs(); ++i) {
    if (!operands.Has(i)) continue;
    const bool is_spread = op.broadcast != BroadcastRule::kToFirst || IsComputedWith(op, i);
    if (!is_spread) continue;
    auto both = BroadcastShape(shape, operands.ShapeOf(i));
    if (!both) {
      return operands.Error(fmt::format("shapes {} and {} do not fit each other",
                                        operands.Text(shape), operands.Text(operands.ShapeOf(i))));
    }
    shape = *std::move(both);
  }
  if (op.broadcast == BroadcastRule::kToFirst && shape != operands.ShapeOf(0)) {
    return operands.Error("inputs have to fit the first one's shape");
  }
  Outputs outputs = {{type, shape}};
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
  ElementwiseElement(const Operator& op, ElementEmitter& e, const Position& position, DType common)
      : op_(op),
        e_(e),
        position_(position),
        expression_(op.parsed_integer && !IsFloat(common) ? *op.parsed_integer : *op.parsed),
        compute_(ComputeType(op, expression_, common)) {}

  absl::StatusOr<int> Run(DType result) {
    KILN_ASSIGN_OR_RETURN(const int value,
                          op_.category == OpCategory::kVariadic ? Folded() : Once());
    if (op_.name == "BitCast") return e_.make().BitCast(result, value);
    if (!Saturates(result)) return CastToFp8(result, value);
    return CastThroughCompute(result, value, e_.make());
  }

 private:
  bool Saturates(DType result) const {
    const bool is_fp8 = IsFloat(result) && FactsOf(result).bits == 8;
    return !is_fp8 || e_.Int("saturate", 1) != 0;
  }

  int CastToFp8(DType result, int value) {
    const DType from = e_.TypeOfValue(value);
    if (from == result) return value;
    const DType wide = from == DType::kF64 ? from : DType::kF32;
    return CastBeyondRange(result, CastThroughCompute(wide, value, e_.make()), e_.make());
  }

  int Read(size_t input) {
    const int element = e_.Read(input, e_.Broadcast(input, position_));
    if (!IsComputedWith(op_, input)) return element;
    return CastThroughCompute(compute_, element, e_.make());
  }

  absl::StatusOr<int> Compute(std::vector<std::optional<int>> values) {
    const Attributes attributes = WithDefaults(op_, e_.operation().attributes);
    return EmitExpression(expression_, {std::move(values), attributes, compute_}, e_.make());
  }

  absl::StatusOr<int> Once() {
    std::vector<std::optional<int>> values(e_.inputs());
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_used = IsComputedWith(op_, i) || op_.category == OpCategory::kTernary;
      if (is_used && e_.Has(i)) values[i] = Read(i);
    }
    return Compute(std::move(values));
  }

  absl::StatusOr<int> Folded() {
    int sum = Read(0);
    for (size_t i = 1; i < e_.inputs(); ++i) {
      const int next = Read(i);
      KILN_ASSIGN_OR_RETURN(sum, Compute({sum, next}));
    }
    if (op_.name != "Mean") return sum;
    return e_.Divide(sum, e_.Number(compute_, static_cast<double>(e_.inputs())));
  }

  const Operator& op_;
  ElementEmitter& e_;
  const Position& position_;
  const Expression& expression_;
  DType compute_;
};

absl::StatusOr<int> ElementOfExpression(ElementEmitter& e, int output, const Position& position) {
  const Operator& op = *FindOperator(e.operation().name);
  // Dropout's mask: without training nothing is dropped.
  if (output == 1) return e.make().Integer(DType::kBool, 1);
  KILN_ASSIGN_OR_RETURN(const DType common, CommonType(op, e));
  KILN_ASSIGN_OR_RETURN(const DType result, OutputType(op, e));
  return ElementwiseElement(op, e, position, common).Run(result);
}

}  // namespace

constexpr LoweringRule kElementwiseRule = {Infer<ElementwiseOutputs>, Emit<ElementOfExpression>};

}  // namespace kiln::graph
