#include "client/graph/operators/section_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "client/graph/operators/operands.h"
#include "client/graph/program/order_of_use.h"
#include "client/graph/segment/shape.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

std::string BufferName(int value) { return fmt::format("v{}", value); }

bool IsPacked(DType type) { return FactsOf(type).bits < 8; }

// Memory has two elements of 4 bits in a byte, the first one in the low bits.
DType MemoryType(DType type) { return IsPacked(type) ? DType::kU8 : type; }

}  // namespace

SectionElements::SectionElements(const Segment& segment, std::map<int, int> producers,
                                 std::string name)
    : segment_(segment),
      producers_(std::move(producers)),
      builder_(std::move(name), segment.symbols) {}

void SectionElements::AddInput(int value) {
  if (value == kOmitted || buffers_.contains(value)) return;
  buffers_[value] = builder_.AddInput(BufferName(value), MemoryType(ValueAt(value).type));
}

std::optional<int> SectionElements::Guard() const {
  return guards_.empty() ? std::nullopt : std::optional(guards_.back());
}

void SectionElements::BeginGuard(int condition) {
  guards_.push_back(guards_.empty() ? condition
                                    : builder_.Binary(Opcode::kAnd, guards_.back(), condition));
}

std::optional<SectionElements::Place> SectionElements::PlaceOf(int value) {
  if (const auto known = places_.find(value); known != places_.end()) return known->second;
  std::optional<Place>& place = places_[value];
  const auto producer = producers_.find(value);
  if (producer == producers_.end()) return place = Place{value, {0, StridesOf(ValueAt(value))}};
  const Operation& operation = segment_.operations[static_cast<size_t>(producer->second)];
  if (operation.inputs.empty() || operation.inputs.front() == kOmitted) return std::nullopt;
  const auto input = PlaceOf(operation.inputs.front());
  if (!input) return std::nullopt;
  const auto output = std::ranges::find(operation.outputs, value) - operation.outputs.begin();
  const auto view = ViewOf(segment_, operation, static_cast<size_t>(output), input->view);
  return place = view ? std::optional(Place{input->value, *view}) : std::nullopt;
}

int SectionElements::IndexOf(const View& view, const Position& position) {
  int index = builder_.SizeOf(view.offset);
  for (size_t i = 0; i < position.size(); ++i) {
    const int offset =
        builder_.Binary(Opcode::kMultiply, position[i], builder_.SizeOf(view.strides[i]));
    index = builder_.Binary(Opcode::kAdd, index, offset);
  }
  return index;
}

// An empty dimension of stride 0 is not in the index: its loop is empty, and yet the load would be
// done before it.
int SectionElements::LoadOf(int value, const View& view, int buffer, const Position& position) {
  const Value& facts = ValueAt(value);
  std::optional<int> guard = Guard();
  for (size_t i = 0; i < view.strides.size(); ++i) {
    const Size& extent = facts.shape[i];
    if (view.strides[i] != Size(0) || IsAtMost(1, extent, segment_.symbols)) continue;
    if (extent == Size(0)) return builder_.Integer(facts.type, 0);
    const int none = builder_.SizeOf(0);
    const int is_there = builder_.Binary(Opcode::kLess, none, builder_.SizeOf(extent));
    guard = guard ? builder_.Binary(Opcode::kAnd, *guard, is_there) : is_there;
  }
  return Load(facts.type, buffer, IndexOf(view, position), guard);
}

int SectionElements::Load(DType type, int buffer, int index, std::optional<int> guard) {
  if (!IsPacked(type)) return builder_.Load(buffer, index, guard);
  const int one = builder_.SizeOf(1);
  const int byte = builder_.Load(buffer, builder_.Binary(Opcode::kShiftRight, index, one), guard);
  const int half = builder_.Cast(DType::kU8, builder_.Binary(Opcode::kAnd, index, one));
  const int bits = builder_.Binary(Opcode::kMultiply, half, builder_.Integer(DType::kU8, 4));
  return builder_.Cast(type, builder_.Binary(Opcode::kShiftRight, byte, bits));
}

absl::StatusOr<int> SectionElements::ElementAt(const Operation& operation, int value,
                                               const Position& position) {
  const auto output = std::ranges::find(operation.outputs, value) - operation.outputs.begin();
  return FindLoweringRule(operation.name)
      ->element(operation, static_cast<int>(output), position, *this);
}

absl::StatusOr<int> SectionElements::Read(int value, const Position& position) {
  if (const auto place = PlaceOf(value)) {
    const auto buffer = buffers_.find(place->value);
    if (buffer == buffers_.end()) {
      return absl::InternalError(fmt::format("value {} is no input of the section", place->value));
    }
    return LoadOf(value, place->view, buffer->second, position);
  }
  const int producer = producers_.at(value);
  const std::tuple key(value, Guard().value_or(-1), position);
  if (const auto known = computed_.find(key); known != computed_.end()) return known->second;
  KILN_ASSIGN_OR_RETURN(
      auto element, ElementAt(segment_.operations[static_cast<size_t>(producer)], value, position));
  if (const auto guard = Guard()) {
    element = builder_.Select(*guard, element, builder_.Constant(builder_.TypeOf(element), 0));
  }
  return computed_[key] = element;
}

// An axis for each dimension; inner ones behind the others, as a LoopProgram has them.
Position SectionElements::AddAxes(const std::vector<Size>& shape, const std::vector<int>& inner) {
  Position position(shape.size());
  for (const bool is_inner : {false, true}) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if ((std::ranges::count(inner, static_cast<int>(i)) > 0) != is_inner) continue;
      position[i] = builder_.AxisAt(is_inner ? builder_.AddInnerAxis(shape[i])
                                             : builder_.AddOuterAxis(shape[i]));
    }
  }
  return position;
}

// Where the element is that is number `flat`, row by row.
Position SectionElements::PositionIn(const std::vector<Size>& shape, int flat) {
  Position position(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const int extent = builder_.SizeOf(shape[i]);
    position[i] = i == 0 ? flat : builder_.Binary(Opcode::kRemainder, flat, extent);
    flat = builder_.Binary(Opcode::kDivide, flat, extent);
  }
  return position;
}

absl::Status SectionElements::Store(const Operation& root, int value, int buffer,
                                    const std::vector<int>& inner) {
  const Position position = AddAxes(ValueAt(value).shape, inner);
  KILN_ASSIGN_OR_RETURN(const auto element, ElementAt(root, value, position));
  builder_.Store(buffer, IndexOf({0, StridesOf(ValueAt(value))}, position), element);
  return absl::OkStatus();
}

// One position for each byte, so that no two threads write to one.
absl::Status SectionElements::StorePairs(const Operation& root, int value, int buffer,
                                         const std::vector<int>& inner) {
  const std::vector<Size>& shape = ValueAt(value).shape;
  if (StridesOf(ValueAt(value)) != RowMajorStrides(shape)) {
    return absl::UnimplementedError(
        fmt::format("{}: strides of an output of 4 bits are not lowered", root.name));
  }
  const auto half = shape.empty() ? std::nullopt : Quotient(shape.back(), 2);
  std::vector<Size> bytes = shape;
  if (half) bytes.back() = *half;
  const auto all = FloorQuotient(ElementsOf(shape) + Size(1), 2);
  if (!half && !all) {
    return absl::UnimplementedError(fmt::format(
        "{}: an output of 4 bits has an even number of elements, or a constant one", root.name));
  }
  if (!half) bytes = {*all};
  const Position at = AddAxes(bytes, half ? inner : std::vector<int>());
  std::vector<int> elements;
  for (const int64_t number : {0, 1}) {
    Position position = at;
    position.back() = builder_.Binary(
        Opcode::kAdd, builder_.Binary(Opcode::kMultiply, at.back(), builder_.SizeOf(2)),
        builder_.SizeOf(number));
    if (!half) {
      BeginGuard(builder_.Binary(Opcode::kLess, position[0], builder_.SizeOf(ElementsOf(shape))));
      position = PositionIn(shape, position[0]);
    }
    KILN_ASSIGN_OR_RETURN(const int element, ElementAt(root, value, position));
    elements.push_back(builder_.Cast(DType::kU4, element));
    if (half) continue;
    elements.back() = builder_.Select(*Guard(), elements.back(), builder_.Integer(DType::kU8, 0));
    EndGuard();
  }
  const int high =
      builder_.Binary(Opcode::kMultiply, elements[1], builder_.Integer(DType::kU8, 16));
  builder_.Store(buffer, IndexOf({0, RowMajorStrides(bytes)}, at),
                 builder_.Binary(Opcode::kOr, elements[0], high));
  return absl::OkStatus();
}

absl::StatusOr<LoopProgram> SectionElements::Program(const Operation& root, int value,
                                                     const std::vector<int>& inner) && {
  const DType type = ValueAt(value).type;
  const int buffer = builder_.AddOutput(BufferName(value), MemoryType(type));
  KILN_RETURN_IF_ERROR(IsPacked(type) ? StorePairs(root, value, buffer, inner)
                                      : Store(root, value, buffer, inner));
  LoopProgram program = InOrderOfUse(std::move(builder_).Finish());
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InternalError(fmt::format("{}: {}", root.name, wrong));
  }
  return program;
}

}  // namespace kiln::graph
