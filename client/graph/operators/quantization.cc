// QuantizeLinear and DequantizeLinear: scales for the tensor, for an axis, or for blocks on it.
#include <fmt/format.h>

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "client/graph/operators/broadcast.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/rules.h"

namespace kiln::graph {
namespace {

constexpr size_t kScale = 1;
constexpr size_t kZeroPoint = 2;

absl::Status WrongQuantization(const Operation& operation, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", operation.name, what));
}

int64_t IntegerOf(const Operation& operation, std::string_view name) {
  const Attribute* attribute = FindAttribute(operation, name);
  const auto* integer = attribute == nullptr ? nullptr : std::get_if<int64_t>(attribute);
  return integer == nullptr ? 0 : *integer;
}

// By the zero point, or by the attribute; u8 where neither is there.
absl::StatusOr<DType> QuantizedType(const Segment& segment, const Operation& operation) {
  if (const Value* zero = InputAt(segment, operation, kZeroPoint)) return zero->type;
  const DType type = DTypeAttribute(operation, "output_dtype").value_or(DType::kU8);
  const bool is_narrow = FactsOf(type).bits <= 16 && type != DType::kBool;
  if (!is_narrow) return WrongQuantization(operation, "it quantizes to types of 4 to 16 bits");
  return type;
}

absl::StatusOr<std::vector<TensorType>> QuantizationOutputs(const Segment& segment,
                                                            const Operation& operation) {
  const Value* x = InputAt(segment, operation, 0);
  const Value* scale = InputAt(segment, operation, kScale);
  if (x == nullptr || scale == nullptr) return WrongQuantization(operation, "an input is missing");
  if (!IsFloat(scale->type)) return WrongQuantization(operation, "the scale has to be a float");
  const auto rank = static_cast<int64_t>(x->shape.size());
  const int64_t axis = IntegerOf(operation, "axis");
  if (scale->shape.size() > 1 && scale->shape.size() != x->shape.size()) {
    return WrongQuantization(operation, "the scale has no, one, or all dimensions of input 0");
  }
  const bool has_axis = !scale->shape.empty() && scale->shape != std::vector<Size>{1};
  if (has_axis && (axis < -rank || axis >= rank)) {
    return WrongQuantization(operation, fmt::format("there is no axis {}", axis));
  }
  if (scale->shape.size() > 1 && IntegerOf(operation, "block_size") < 1) {
    return WrongQuantization(operation, "block_size is missing");
  }
  if (FindOperator(operation.name)->name == "QuantizeLinear") {
    const auto type = QuantizedType(segment, operation);
    if (!type.ok()) return type.status();
    return std::vector<TensorType>{{*type, x->shape}};
  }
  const DType type = DTypeAttribute(operation, "output_dtype").value_or(scale->type);
  return std::vector<TensorType>{{type, x->shape}};
}

// The element of the scale, or of the zero point, as an f32.
absl::StatusOr<int> ReadParameter(const Operation& operation, size_t input,
                                  const Position& position, Elements& elements) {
  ProgramBuilder& builder = elements.builder();
  const Value& parameter = *InputAt(elements.segment(), operation, input);
  Position place;
  if (parameter.shape.empty() || parameter.shape == std::vector<Size>{1}) {
    place.assign(parameter.shape.size(), builder.SizeOf(0));
  } else {
    const int64_t given = IntegerOf(operation, "axis");
    const auto axis =
        static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(position.size()) : given);
    const bool is_blocked = parameter.shape.size() == position.size() && position.size() > 1;
    place = is_blocked ? position : Position{position[axis]};
    if (is_blocked) {
      const int block = builder.SizeOf(IntegerOf(operation, "block_size"));
      place[axis] = builder.Binary(Opcode::kDivide, position[axis], block);
    }
  }
  const auto element = elements.Read(operation.inputs[input], place);
  if (!element.ok()) return element;
  return builder.Cast(DType::kF32, *element);
}

absl::StatusOr<int> DequantizedElement(const Operation& operation, int, const Position& position,
                                       Elements& elements) {
  ProgramBuilder& builder = elements.builder();
  const auto x = elements.Read(operation.inputs[0], position);
  if (!x.ok()) return x;
  const auto scale = ReadParameter(operation, kScale, position, elements);
  if (!scale.ok()) return scale;
  int value = builder.Cast(DType::kF32, *x);
  if (InputAt(elements.segment(), operation, kZeroPoint) != nullptr) {
    const auto zero = ReadParameter(operation, kZeroPoint, position, elements);
    if (!zero.ok()) return zero;
    value = builder.Binary(Opcode::kSubtract, value, *zero);
  }
  const auto outputs = QuantizationOutputs(elements.segment(), operation);
  if (!outputs.ok()) return outputs.status();
  return builder.Cast(outputs->front().type, builder.Binary(Opcode::kMultiply, value, *scale));
}

// Within what the type holds.
int Saturated(DType type, int value, ProgramBuilder& builder) {
  const DTypeFacts& facts = FactsOf(type);
  const bool is_signed = facts.kind == DTypeClass::kSigned;
  const int64_t count = int64_t{1} << facts.bits;
  const int64_t least = is_signed ? -count / 2 : 0;
  const int low = builder.Integer(DType::kF32, least);
  const int high = builder.Integer(DType::kF32, least + count - 1);
  value = builder.Binary(Opcode::kMaximum, value, low);
  return builder.Binary(Opcode::kMinimum, value, high);
}

absl::StatusOr<int> QuantizedElement(const Operation& operation, int, const Position& position,
                                     Elements& elements) {
  ProgramBuilder& builder = elements.builder();
  const auto type = QuantizedType(elements.segment(), operation);
  if (!type.ok()) return type.status();
  const auto x = elements.Read(operation.inputs[0], position);
  if (!x.ok()) return x;
  const auto scale = ReadParameter(operation, kScale, position, elements);
  if (!scale.ok()) return scale;
  int value = builder.Binary(Opcode::kDivide, builder.Cast(DType::kF32, *x), *scale);
  if (!IsFloat(*type)) value = builder.Unary(Opcode::kRoundToEven, value);
  if (InputAt(elements.segment(), operation, kZeroPoint) != nullptr) {
    const auto zero = ReadParameter(operation, kZeroPoint, position, elements);
    if (!zero.ok()) return zero;
    value = builder.Binary(Opcode::kAdd, value, *zero);
  }
  if (!IsFloat(*type)) value = Saturated(*type, value, builder);
  return builder.Cast(*type, value);
}

constexpr LoweringRule kQuantizeRule = {.outputs = QuantizationOutputs,
                                        .element = QuantizedElement};
constexpr LoweringRule kDequantizeRule = {.outputs = QuantizationOutputs,
                                          .element = DequantizedElement};

}  // namespace

const LoweringRule* FindQuantizationRule(std::string_view op) {
  if (op == "QuantizeLinear") return &kQuantizeRule;
  return op == "DequantizeLinear" ? &kDequantizeRule : nullptr;
}

}  // namespace kiln::graph
