// QuantizeLinear and DequantizeLinear: scales for the tensor, for an axis, or for blocks on it.
#include "client/graph/operators/quantization.h"

#include <fmt/format.h>

#include "client/graph/operators/rules.h"

namespace kiln::graph {
namespace {

constexpr size_t kScale = 1;
constexpr size_t kZeroPoint = 2;

// By the zero point, or by the attribute; u8 where neither is there.
absl::StatusOr<DType> QuantizedType(const Operands& operands) {
  if (operands.Has(kZeroPoint)) return operands.TypeOf(kZeroPoint);
  const DType type = operands.Type("output_dtype").value_or(DType::kU8);
  if (FactsOf(type).bits <= 16 && type != DType::kBool) return type;
  return operands.Error("it quantizes to types of 4 to 16 bits");
}

absl::Status CheckScale(const Operands& operands) {
  if (!IsFloat(operands.TypeOf(kScale))) return operands.Error("the scale has to be a float");
  const Shape& scale = operands.ShapeOf(kScale);
  if (scale.size() > 1 && operands.Rank(kScale) != operands.Rank(0)) {
    return operands.Error("the scale has no, one, or all dimensions of input 0");
  }
  const int64_t axis = operands.Int("axis", 1);
  const bool has_axis = !scale.empty() && scale != Shape{1};
  if (has_axis && !operands.Axis(axis, operands.Rank(0)).ok()) {
    return operands.Error(fmt::format("there is no axis {}", axis));
  }
  if (scale.size() > 1 && operands.Int("block_size", 0) < 1) {
    return operands.Error("block_size is missing");
  }
  return absl::OkStatus();
}

absl::StatusOr<Outputs> QuantizedOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(CheckScale(operands));
  KILN_ASSIGN_OR_RETURN(const DType type, QuantizedType(operands));
  return Outputs{{type, operands.ShapeOf(0)}};
}

absl::StatusOr<Outputs> DequantizedOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(CheckScale(operands));
  const DType type = operands.Type("output_dtype").value_or(operands.TypeOf(kScale));
  return Outputs{{type, operands.ShapeOf(0)}};
}

// The element of the scale, or of the zero point, as an f32.
int ReadParameter(ElementEmitter& e, size_t input, const Position& position) {
  const Shape& shape = e.ShapeOf(input);
  if (shape.empty() || shape == Shape{1}) {
    return e.ReadAs(DType::kF32, input, Position(shape.size(), e.Of(0)));
  }
  const size_t axis = e.Axis(e.Int("axis", 1), e.Rank(0)).value_or(0);
  if (shape.size() == 1) return e.ReadAs(DType::kF32, input, {position[axis]});
  Position place = position;
  place[axis] = e.Divide(position[axis], e.Of(e.Int("block_size", 0)));
  return e.ReadAs(DType::kF32, input, place);
}

int DequantizedElement(ElementEmitter& e, int, const Position& position) {
  int value = e.ReadAs(DType::kF32, 0, position);
  const int scale = ReadParameter(e, kScale, position);
  if (e.Has(kZeroPoint)) value = e.Subtract(value, ReadParameter(e, kZeroPoint, position));
  return e.Multiply(value, scale);
}

// Within what the type holds.
int Saturated(ElementEmitter& e, DType type, int value) {
  const DTypeFacts& facts = FactsOf(type);
  const bool is_signed = facts.kind == DTypeClass::kSigned;
  const int64_t count = int64_t{1} << facts.bits;
  const int64_t least = is_signed ? -count / 2 : 0;
  const int low = e.make().Integer(DType::kF32, least);
  const int high = e.make().Integer(DType::kF32, least + count - 1);
  return e.Minimum(e.Maximum(value, low), high);
}

int QuantizedElement(ElementEmitter& e, int, const Position& position) {
  const DType type = e.Output(0).type;
  const int x = e.ReadAs(DType::kF32, 0, position);
  const int value = e.Divide(x, ReadParameter(e, kScale, position));
  std::optional<int> zero_point;
  if (e.Has(kZeroPoint)) zero_point = ReadParameter(e, kZeroPoint, position);
  return QuantizedTo(e, type, value, zero_point);
}

constexpr NamedRule kQuantizations[] = {
    {"QuantizeLinear", {Infer<QuantizedOutputs>, Emit<QuantizedElement>}},
    {"DequantizeLinear", {Infer<DequantizedOutputs>, Emit<DequantizedElement>}},
};

}  // namespace

int QuantizedTo(ElementEmitter& e, DType type, int value, std::optional<int> zero_point) {
  if (!IsFloat(type)) value = e.Unary(Opcode::kRoundToEven, value);
  if (zero_point) value = e.Add(value, *zero_point);
  return IsFloat(type) ? value : Saturated(e, type, value);
}

std::span<const NamedRule> QuantizationRules() { return kQuantizations; }

}  // namespace kiln::graph
