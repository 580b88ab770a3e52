#include "client/graph/onnx/shape_values.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "client/graph/onnx/shape_arithmetic.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/operands.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

constexpr int64_t kShapeElementsMax = 256;  // more are no shape

bool IsShapeType(DType type) {
  return type == DType::kI64 || type == DType::kI32 || type == DType::kBool;
}

// An operation, with what is known of its inputs.
struct ShapeInputs {
  const Segment& segment;
  const Operation& operation;
  const Value& output;
  std::vector<std::optional<ShapeElements>> elements;

  const std::vector<Size>& ShapeOf(size_t input) const {
    return segment.values[static_cast<size_t>(operation.inputs[input])].shape;
  }
  int64_t Int(std::string_view name) const {
    const Attribute* const found = FindAttribute(operation, name);
    const auto* const number = found == nullptr ? nullptr : std::get_if<int64_t>(found);
    return number == nullptr ? 0 : *number;
  }
  // A known input whose elements are all numbers.
  std::optional<std::vector<int64_t>> Numbers(size_t input) const {
    if (input >= elements.size() || !elements[input]) return std::nullopt;
    std::vector<int64_t> numbers;
    for (const Size& size : *elements[input]) {
      if (!size.Constant()) return std::nullopt;
      numbers.push_back(*size.Constant());
    }
    return numbers;
  }
  size_t Count() const { return static_cast<size_t>(*ElementsOf(output.shape).Constant()); }
};

using Evaluation = std::optional<ShapeElements> (*)(const ShapeInputs&);

// Start and end of Shape count as in Python; its rule has checked them.
std::optional<ShapeElements> ShapeEvaluated(const ShapeInputs& inputs) {
  const auto& shape = inputs.ShapeOf(0);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t start = inputs.Int("start");
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  const auto count = static_cast<int64_t>(inputs.Count());
  if (first + count > rank) return std::nullopt;
  return ShapeElements(shape.begin() + first, shape.begin() + first + count);
}

std::optional<ShapeElements> SizeEvaluated(const ShapeInputs& inputs) {
  return ShapeElements{ElementsOf(inputs.ShapeOf(0))};
}

std::optional<ShapeElements> ElementsKept(const ShapeInputs& inputs) {
  const auto input = static_cast<size_t>(inputs.operation.inputs[0]);
  const bool is_narrowed =
      inputs.output.type == DType::kBool && inputs.segment.values[input].type != DType::kBool;
  return is_narrowed ? std::nullopt : inputs.elements[0];
}

std::optional<ShapeElements> ElementsConcatenated(const ShapeInputs& inputs) {
  ShapeElements all;
  for (const auto& elements : inputs.elements) {
    if (!elements || inputs.output.shape.size() != 1) return std::nullopt;
    all.insert(all.end(), elements->begin(), elements->end());
  }
  return all;
}

std::optional<ShapeElements> ElementsGathered(const ShapeInputs& inputs) {
  const auto indices = inputs.Numbers(1);
  if (!inputs.elements[0] || !indices || inputs.ShapeOf(0).size() != 1) return std::nullopt;
  const auto count = static_cast<int64_t>(inputs.elements[0]->size());
  ShapeElements gathered;
  for (const int64_t index : *indices) {
    if (index < -count || index >= count) return std::nullopt;
    gathered.push_back(
        (*inputs.elements[0])[static_cast<size_t>(index < 0 ? index + count : index)]);
  }
  return gathered;
}

// One dimension, by constant inputs.
std::optional<ShapeElements> ElementsSliced(const ShapeInputs& inputs) {
  const auto starts = inputs.Numbers(1);
  const auto steps = inputs.elements.size() > 4 ? inputs.Numbers(4) : std::vector<int64_t>{1};
  if (!inputs.elements[0] || !starts || starts->size() != 1 || !steps || steps->size() != 1 ||
      inputs.ShapeOf(0).size() != 1) {
    return std::nullopt;
  }
  const auto count = static_cast<int64_t>(inputs.elements[0]->size());
  const int64_t step = (*steps)[0];
  int64_t at = std::clamp<int64_t>((*starts)[0] < 0 ? (*starts)[0] + count : (*starts)[0], 0,
                                   step < 0 ? count - 1 : count);
  ShapeElements sliced;
  for (size_t i = 0; i < inputs.Count(); ++i, at += step) {
    if (at < 0 || at >= count) return std::nullopt;
    sliced.push_back((*inputs.elements[0])[static_cast<size_t>(at)]);
  }
  return sliced;
}

// The function of two inputs of one length, or of one element.
template <std::optional<Size> (*kFunction)(const Size&, const Size&)>
std::optional<ShapeElements> ElementsPaired(const ShapeInputs& inputs) {
  if (inputs.elements.size() != 2 || !inputs.elements[0] || !inputs.elements[1]) {
    return std::nullopt;
  }
  const size_t count = inputs.Count();
  ShapeElements results;
  for (size_t i = 0; i < count; ++i) {
    const auto at = [&](size_t input) -> const Size* {
      const ShapeElements& all = *inputs.elements[input];
      if (all.size() != count && all.size() != 1) return nullptr;
      return &all[all.size() == 1 ? 0 : i];
    };
    if (at(0) == nullptr || at(1) == nullptr) return std::nullopt;
    auto result = kFunction(*at(0), *at(1));
    if (!result || !result->IsValid()) return std::nullopt;
    results.push_back(*std::move(result));
  }
  return results;
}

template <Size (*kFunction)(const Size&)>
std::optional<ShapeElements> ElementsEach(const ShapeInputs& inputs) {
  if (!inputs.elements[0]) return std::nullopt;
  ShapeElements results;
  for (const Size& size : *inputs.elements[0]) results.push_back(kFunction(size));
  return results;
}

std::optional<ShapeElements> ElementsChosen(const ShapeInputs& inputs) {
  const auto condition = inputs.Numbers(0);
  const size_t count = inputs.Count();
  if (!condition || condition->size() != count) return std::nullopt;
  ShapeElements results;
  for (size_t i = 0; i < count; ++i) {
    const auto& from = inputs.elements[(*condition)[i] != 0 ? 1 : 2];
    if (!from || (from->size() != count && from->size() != 1)) return std::nullopt;
    results.push_back((*from)[from->size() == 1 ? 0 : i]);
  }
  return results;
}

// All elements are one number.
std::optional<ShapeElements> ElementsFilled(const ShapeInputs& inputs) {
  return ShapeElements(inputs.Count(), Size(inputs.Int("value")));
}

std::optional<ShapeElements> ElementsMultiplied(const ShapeInputs& inputs) {
  if (!inputs.elements[0] || inputs.Count() != 1) return std::nullopt;
  Size product = 1;
  for (const Size& size : *inputs.elements[0]) product *= size;
  if (!product.IsValid()) return std::nullopt;
  return ShapeElements{product};
}

std::optional<ShapeElements> ElementsCounted(const ShapeInputs& inputs) {
  const auto start = inputs.Numbers(0);
  const auto step = inputs.Numbers(2);
  if (!start || !step) return std::nullopt;
  ShapeElements results;
  for (size_t i = 0; i < inputs.Count(); ++i) {
    results.push_back(Size((*start)[0]) + Size((*step)[0]) * Size(static_cast<int64_t>(i)));
  }
  return results;
}

struct NamedEvaluation {
  std::string_view op;
  Evaluation evaluate;
};
constexpr NamedEvaluation kEvaluations[] = {
    {"Shape", ShapeEvaluated},
    {"Size", SizeEvaluated},
    {"Identity", ElementsKept},
    {"Cast", ElementsKept},
    {"Reshape", ElementsKept},
    {"Flatten", ElementsKept},
    {"Squeeze", ElementsKept},
    {"Unsqueeze", ElementsKept},
    {"Concat", ElementsConcatenated},
    {"Gather", ElementsGathered},
    {"Slice", ElementsSliced},
    {"Add", ElementsPaired<SizesAdded>},
    {"Sub", ElementsPaired<SizesSubtracted>},
    {"Mul", ElementsPaired<SizesMultiplied>},
    {"Div", ElementsPaired<SizesDivided>},
    {"Mod", ElementsPaired<RemainderOfSizes>},
    {"And", ElementsPaired<BothHold>},
    {"Not", ElementsEach<IsFalse>},
    {"Neg", ElementsEach<NegatedSize>},
    {"Equal", ElementsPaired<SizesCompared>},
    {"Min", ElementsPaired<SmallerSize>},
    {"Max", ElementsPaired<LargerSize>},
    {"Where", ElementsChosen},
    {"ConstantOfShape", ElementsFilled},
    {"ReduceProd", ElementsMultiplied},
    {"Range", ElementsCounted},
};

template <typename T>
ShapeElements ElementsIn(const std::string& bytes) {
  ShapeElements elements(bytes.size() / sizeof(T));
  for (size_t i = 0; i < elements.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    elements[i] = static_cast<int64_t>(element);
  }
  return elements;
}

}  // namespace

std::optional<ShapeElements> ShapeValues::Of(const Segment& segment, int value) const {
  if (value == kOmitted) return std::nullopt;
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  const Value& facts = segment.values[static_cast<size_t>(value)];
  if (!facts.is_constant || !facts.bytes || !IsShapeType(facts.type)) return std::nullopt;
  if (std::ssize(*facts.bytes) > kShapeElementsMax * 8) return std::nullopt;
  if (facts.type == DType::kI64) return ElementsIn<int64_t>(*facts.bytes);
  return facts.type == DType::kI32 ? ElementsIn<int32_t>(*facts.bytes)
                                   : ElementsIn<uint8_t>(*facts.bytes);
}

std::optional<ShapeElements> ShapeValues::Evaluate(const Segment& segment,
                                                   const Operation& operation,
                                                   const Value& output) const {
  const auto found = std::ranges::find(kEvaluations, operation.name, &NamedEvaluation::op);
  if (found == std::end(kEvaluations) || !IsShapeType(output.type)) return std::nullopt;
  const auto count = ElementsOf(output.shape).Constant();
  if (!count || *count > kShapeElementsMax) return std::nullopt;
  ShapeInputs inputs{segment, operation, output, {}};
  for (const int input : operation.inputs) inputs.elements.push_back(Of(segment, input));
  auto elements = found->evaluate(inputs);
  if (!elements || std::ssize(*elements) != *count) return std::nullopt;
  return elements;
}

std::optional<std::vector<int64_t>> ShapeValues::TargetOfReshape(const Segment& segment,
                                                                 const Operation& operation) const {
  if (operation.inputs.size() < 2 || !known_.contains(operation.inputs[1])) return std::nullopt;
  const ShapeElements& sizes = known_.at(operation.inputs[1]);
  const auto& shape = segment.values[static_cast<size_t>(operation.inputs[0])].shape;
  std::vector<int64_t> target;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_same = i < shape.size() && sizes[i] == shape[i];
    target.push_back(is_same ? 0 : sizes[i].Constant().value_or(-1));
    if (!is_same && sizes[i] == Size(0)) return std::nullopt;  // it would mean another thing
  }
  if (std::ranges::count(target, -1) > 1) return std::nullopt;
  return target;
}

std::optional<std::string> BytesOfElements(DType type, const ShapeElements& elements) {
  const auto size = static_cast<size_t>(FactsOf(type).bits / 8);
  std::string bytes(elements.size() * size, '\0');
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto number = elements[i].Constant();
    if (!number) return std::nullopt;
    std::memcpy(bytes.data() + i * size, &*number, size);
  }
  return bytes;
}

}  // namespace kiln::graph
