// Operators whose elements depend on attributes and positions, and on no element of a tensor.
#include <fmt/format.h>

#include <cmath>

#include "client/graph/operators/constant_elements.h"
#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/limits.h"

namespace kiln::graph {
namespace {

// The first input as a shape.
absl::StatusOr<Shape> ShapeInput(const Operands& operands) {
  const auto elements = ConstantElements(operands.Input(0));
  if (!elements) {
    return operands.Error("input 0, the shape, has to be a constant with its elements");
  }
  Shape shape;
  for (const double extent : *elements) {
    if (!(extent >= 0 && extent <= static_cast<double>(kElementsMax))) {
      return operands.Error("a dimension is negative, or too large");
    }
    shape.emplace_back(static_cast<int64_t>(extent));
  }
  return shape;
}

// --- Filled with one number ---

absl::StatusOr<Outputs> FilledOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(Shape shape, ShapeInput(operands));
  return Outputs{{operands.Type("dtype").value_or(DType::kF32), std::move(shape)}};
}

int FilledElement(ElementEmitter& e, int, const Position&) {
  const DType type = e.Output(0).type;
  if (const auto integer = e.Ints("value")) return e.make().Integer(type, integer->front());
  return e.Number(type, e.Float("value", 0));
}

absl::StatusOr<Outputs> FillOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(Shape shape, ShapeInput(operands));
  return Outputs{{operands.TypeOf(1), std::move(shape)}};
}

int FillElement(ElementEmitter& e, int, const Position&) {
  return e.Read(1, Position(e.ShapeOf(1).size(), e.Of(0)));
}

// --- Like another tensor ---

absl::StatusOr<Outputs> LikeOutputs(const Operands& operands) {
  return Outputs{{operands.Type("dtype").value_or(operands.TypeOf(0)), operands.ShapeOf(0)}};
}

template <int kNumber>
int LikeElement(ElementEmitter& e, int, const Position&) {
  return e.make().Integer(e.Output(0).type, kNumber);
}

absl::StatusOr<Outputs> EyeOutputs(const Operands& operands) {
  if (operands.Rank(0) != 2) return operands.Error("the input has to have two dimensions");
  return LikeOutputs(operands);
}

int EyeElement(ElementEmitter& e, int, const Position& position) {
  const int is_one = e.Equal(position[1], e.Add(position[0], e.Of(e.Int("k", 0))));
  const DType type = e.Output(0).type;
  return e.Select(is_one, e.make().Integer(type, 1), e.make().Integer(type, 0));
}

// --- Range ---

absl::StatusOr<Outputs> RangeOutputs(const Operands& operands) {
  std::vector<double> ends;
  for (size_t i = 0; i < 3; ++i) {
    const auto elements = ConstantElements(operands.Input(i));
    if (!elements || elements->size() != 1) {
      return operands.Error(fmt::format("input {} has to be a constant number", i));
    }
    ends.push_back(elements->front());
  }
  if (ends[2] == 0) return operands.Error("the step is 0");
  const double count = std::ceil((ends[1] - ends[0]) / ends[2]);
  if (!(count < 0x1p48)) return operands.Error("it has too many elements");
  return Outputs{{operands.TypeOf(0), {static_cast<int64_t>(std::fmax(count, 0))}}};
}

int RangeElement(ElementEmitter& e, int, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).compute;
  const auto number = [&](size_t input) {
    return e.Number(type, ConstantElements(e.Input(input))->front());
  };
  return e.Add(number(0), e.Multiply(e.Cast(type, position[0]), number(2)));
}

// --- Constant ---

// The numbers of the only attribute that is given. Lists of integers are i64, of floats f32.
struct ConstantNumbers {
  bool is_float = false;
  bool is_list = false;
  std::vector<double> floats;
  std::vector<int64_t> integers;
  size_t size() const { return is_float ? floats.size() : integers.size(); }
};

absl::StatusOr<ConstantNumbers> NumbersOf(const Operands& operands) {
  ConstantNumbers numbers;
  int given = 0;
  for (const std::string_view name : {"value_float", "value_floats", "value_int", "value_ints"}) {
    if (!operands.HasAttribute(name)) continue;
    ++given;
    numbers.is_list = name.ends_with('s');
    numbers.is_float = name.starts_with("value_float");
    if (numbers.is_float) {
      KILN_ASSIGN_OR_RETURN(const auto floats, operands.NumbersOrInput(name, 0));
      numbers.floats = floats.value_or(std::vector<double>());
    } else {
      numbers.integers = operands.Ints(name).value_or(std::vector<int64_t>());
    }
  }
  if (given != 1) return operands.Error("it takes one attribute, the value");
  return numbers;
}

absl::StatusOr<Outputs> ConstantOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const ConstantNumbers numbers, NumbersOf(operands));
  Shape shape;
  if (numbers.is_list) shape.emplace_back(static_cast<int64_t>(numbers.size()));
  return Outputs{{numbers.is_float ? DType::kF32 : DType::kI64, std::move(shape)}};
}

// A list becomes a chain of selects.
absl::StatusOr<int> ConstantElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const ConstantNumbers numbers, NumbersOf(e));
  const auto number = [&](size_t i) {
    return numbers.is_float ? e.Number(DType::kF32, numbers.floats[i])
                            : e.make().Integer(DType::kI64, numbers.integers[i]);
  };
  if (numbers.size() == 0) return e.Of(0);
  int element = number(numbers.size() - 1);
  for (size_t i = numbers.size() - 1; i-- > 0;) {
    const int is_here = e.Equal(position[0], e.Of(static_cast<int64_t>(i)));
    element = e.Select(is_here, number(i), element);
  }
  return element;
}

constexpr NamedRule kConstants[] = {
    {"Constant", {Infer<ConstantOutputs>, Emit<ConstantElement>}},
    {"ConstantOfShape", {Infer<FilledOutputs>, Emit<FilledElement>}},
    {"Fill", {Infer<FillOutputs>, Emit<FillElement>}},
    {"ZerosLike", {Infer<LikeOutputs>, Emit<LikeElement<0>>}},
    {"OnesLike", {Infer<LikeOutputs>, Emit<LikeElement<1>>}},
    {"EyeLike", {Infer<EyeOutputs>, Emit<EyeElement>}},
    {"Range", {Infer<RangeOutputs>, Emit<RangeElement>}},
};

}  // namespace

std::span<const NamedRule> ConstantRules() { return kConstants; }

}  // namespace kiln::graph
