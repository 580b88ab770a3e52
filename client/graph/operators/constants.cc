// Operators whose elements depend on attributes and positions, and on no element of a tensor.
#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "absl/status/status.h"
#include "client/graph/operators/broadcast.h"
#include "client/graph/operators/constant_elements.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/rules.h"

namespace kiln::graph {
namespace {

absl::Status WrongConstant(const Operation& operation, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", operation.name, what));
}

using Types = absl::StatusOr<std::vector<TensorType>>;

Types OneOutput(DType type, std::vector<Size> shape) {
  return std::vector<TensorType>{{type, std::move(shape)}};
}

// The first input as a shape.
absl::StatusOr<std::vector<Size>> ShapeInput(const Segment& segment, const Operation& operation) {
  const Value* value = InputAt(segment, operation, 0);
  const auto elements = value == nullptr ? std::nullopt : ConstantElements(*value);
  if (!elements) {
    return WrongConstant(operation, "input 0, the shape, has to be a constant with its elements");
  }
  std::vector<Size> shape;
  for (const double extent : *elements) {
    if (extent < 0) return WrongConstant(operation, "a dimension is negative");
    shape.emplace_back(static_cast<int64_t>(extent));
  }
  return shape;
}

// --- Filled with one number ---

Types FilledOutputs(const Segment& segment, const Operation& operation) {
  auto shape = ShapeInput(segment, operation);
  if (!shape.ok()) return shape.status();
  const auto type = DTypeAttribute(operation, "dtype");
  if (!type) return WrongConstant(operation, "attribute \"dtype\" names no type");
  return OneOutput(*type, *std::move(shape));
}

absl::StatusOr<int> FilledElement(const Operation& operation, int, const Position&,
                                  Elements& elements) {
  const Attribute& value = *FindAttribute(operation, "value");
  const auto type = DTypeAttribute(operation, "dtype");
  if (!type) return WrongConstant(operation, "attribute \"dtype\" names no type");
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return elements.builder().Integer(*type, *integer);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return elements.builder().Constant(*type, *number);
  }
  return WrongConstant(operation, "attribute \"value\" is no number");
}

Types FillOutputs(const Segment& segment, const Operation& operation) {
  auto shape = ShapeInput(segment, operation);
  if (!shape.ok()) return shape.status();
  const Value* value = InputAt(segment, operation, 1);
  if (value == nullptr) return WrongConstant(operation, "input 1 is missing");
  return OneOutput(value->type, *std::move(shape));
}

absl::StatusOr<int> FillElement(const Operation& operation, int, const Position&,
                                Elements& elements) {
  const Value& value = *InputAt(elements.segment(), operation, 1);
  const Position zeros(value.shape.size(), elements.builder().SizeOf(0));
  return elements.Read(operation.inputs[1], zeros);
}

// --- Like another tensor ---

DType TypeLike(const Segment& segment, const Operation& operation) {
  return DTypeAttribute(operation, "dtype").value_or(InputAt(segment, operation, 0)->type);
}

Types LikeOutputs(const Segment& segment, const Operation& operation) {
  const Value* like = InputAt(segment, operation, 0);
  if (like == nullptr) return WrongConstant(operation, "input 0 is missing");
  return OneOutput(TypeLike(segment, operation), like->shape);
}

template <int kNumber>
absl::StatusOr<int> LikeElement(const Operation& operation, int, const Position&,
                                Elements& elements) {
  return elements.builder().Integer(TypeLike(elements.segment(), operation), kNumber);
}

Types EyeOutputs(const Segment& segment, const Operation& operation) {
  const Value* like = InputAt(segment, operation, 0);
  if (like != nullptr && like->shape.size() != 2) {
    return WrongConstant(operation, "the input has to have two dimensions");
  }
  return LikeOutputs(segment, operation);
}

absl::StatusOr<int> EyeElement(const Operation& operation, int, const Position& position,
                               Elements& elements) {
  ProgramBuilder& builder = elements.builder();
  const Attribute& k = *FindAttribute(operation, "k");
  const auto* diagonal = std::get_if<int64_t>(&k);
  if (diagonal == nullptr) return WrongConstant(operation, "attribute \"k\" is no integer");
  const int column = builder.Binary(Opcode::kAdd, position[0], builder.SizeOf(*diagonal));
  const DType type = TypeLike(elements.segment(), operation);
  return builder.Select(builder.Binary(Opcode::kEqual, position[1], column),
                        builder.Integer(type, 1), builder.Integer(type, 0));
}

// --- Range ---

Types RangeOutputs(const Segment& segment, const Operation& operation) {
  std::vector<double> ends;
  for (size_t i = 0; i < 3; ++i) {
    const Value* value = InputAt(segment, operation, i);
    const auto elements = value == nullptr ? std::nullopt : ConstantElements(*value);
    if (!elements || elements->size() != 1) {
      return WrongConstant(operation, fmt::format("input {} has to be a constant number", i));
    }
    ends.push_back(elements->front());
  }
  if (ends[2] == 0) return WrongConstant(operation, "the step is 0");
  const double count = std::ceil((ends[1] - ends[0]) / ends[2]);
  if (!(count < 0x1p48)) return WrongConstant(operation, "it has too many elements");
  return OneOutput(InputAt(segment, operation, 0)->type,
                   {Size(static_cast<int64_t>(std::fmax(count, 0)))});
}

absl::StatusOr<int> RangeElement(const Operation& operation, int, const Position& position,
                                 Elements& elements) {
  ProgramBuilder& builder = elements.builder();
  const DType type = InputAt(elements.segment(), operation, 0)->type;
  const DType compute = FactsOf(type).compute;
  const auto number = [&](size_t input) {
    const auto all = ConstantElements(*InputAt(elements.segment(), operation, input));
    return builder.Constant(compute, all->front());
  };
  const int step = builder.Cast(compute, position[0]);
  const int distance = builder.Binary(Opcode::kMultiply, step, number(2));
  return builder.Cast(type, builder.Binary(Opcode::kAdd, number(0), distance));
}

// --- Constant ---

// The numbers of the only attribute that is given. Lists of integers are i64, of floats f32.
struct ConstantNumbers {
  DType type = DType::kI64;
  bool is_list = false;
  std::vector<double> floats;
  std::vector<int64_t> integers;
};

absl::StatusOr<ConstantNumbers> NumbersOf(const Operation& operation) {
  ConstantNumbers numbers;
  if (operation.attributes.size() != 1) {
    return WrongConstant(operation, "it takes one attribute, the value");
  }
  const Attribute& value = operation.attributes.begin()->second;
  if (std::holds_alternative<std::string>(value)) {
    return WrongConstant(operation, "a string is no number");
  }
  if (const auto* one = std::get_if<int64_t>(&value)) numbers.integers = {*one};
  if (const auto* one = std::get_if<double>(&value)) numbers.floats = {*one};
  if (const auto* all = std::get_if<std::vector<int64_t>>(&value)) numbers.integers = *all;
  if (const auto* all = std::get_if<std::vector<double>>(&value)) numbers.floats = *all;
  if (operation.attributes.begin()->first.starts_with("value_float")) {
    numbers.type = DType::kF32;
    if (numbers.floats.empty()) {
      numbers.floats.assign(numbers.integers.begin(), numbers.integers.end());
    }
  }
  numbers.is_list = value.index() >= 3;
  return numbers;
}

Types ConstantOutputs(const Segment&, const Operation& operation) {
  const auto numbers = NumbersOf(operation);
  if (!numbers.ok()) return numbers.status();
  const size_t count =
      numbers->type == DType::kI64 ? numbers->integers.size() : numbers->floats.size();
  std::vector<Size> shape;
  if (numbers->is_list) shape.emplace_back(static_cast<int64_t>(count));
  return OneOutput(numbers->type, std::move(shape));
}

// A list becomes a chain of selects.
absl::StatusOr<int> ConstantElement(const Operation& operation, int, const Position& position,
                                    Elements& elements) {
  const auto numbers = NumbersOf(operation);
  if (!numbers.ok()) return numbers.status();
  ProgramBuilder& builder = elements.builder();
  const bool is_float = numbers->type == DType::kF32;
  const size_t count = is_float ? numbers->floats.size() : numbers->integers.size();
  const auto number = [&](size_t i) {
    return is_float ? builder.Constant(DType::kF32, numbers->floats[i])
                    : builder.Integer(DType::kI64, numbers->integers[i]);
  };
  if (count == 0) return builder.Integer(numbers->type, 0);
  int element = number(count - 1);
  for (size_t i = count - 1; i-- > 0;) {
    const int here = builder.SizeOf(static_cast<int64_t>(i));
    const int is_here = builder.Binary(Opcode::kEqual, position[0], here);
    element = builder.Select(is_here, number(i), element);
  }
  return element;
}

struct NamedConstantRule {
  std::string_view name;
  LoweringRule rule;
};
constexpr NamedConstantRule kConstantRules[] = {
    {"Constant", {.outputs = ConstantOutputs, .element = ConstantElement}},
    {"ConstantOfShape", {.outputs = FilledOutputs, .element = FilledElement}},
    {"Fill", {.outputs = FillOutputs, .element = FillElement}},
    {"ZerosLike", {.outputs = LikeOutputs, .element = LikeElement<0>}},
    {"OnesLike", {.outputs = LikeOutputs, .element = LikeElement<1>}},
    {"EyeLike", {.outputs = EyeOutputs, .element = EyeElement}},
    {"Range", {.outputs = RangeOutputs, .element = RangeElement}},
};

}  // namespace

const LoweringRule* FindConstantRule(std::string_view op) {
  for (const NamedConstantRule& named : kConstantRules) {
    if (named.name == op) return &named.rule;
  }
  return nullptr;
}

}  // namespace kiln::graph
