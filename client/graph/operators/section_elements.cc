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

}  // namespace

SectionElements::SectionElements(const Segment& segment, std::map<int, int> producers,
                                 std::string name)
    : segment_(segment),
      producers_(std::move(producers)),
      builder_(std::move(name), segment.symbols) {}

void SectionElements::AddInput(int value) {
  if (value == kOmitted || buffers_.contains(value)) return;
  buffers_[value] = builder_.AddInput(BufferName(value), ValueAt(value).type);
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
  return builder_.Load(buffer, IndexOf(view, position), guard);
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

absl::StatusOr<LoopProgram> SectionElements::Program(const Operation& root, int value,
                                                     const std::vector<int>& inner) && {
  const int buffer = builder_.AddOutput(BufferName(value), ValueAt(value).type);
  const Position position = AddAxes(ValueAt(value).shape, inner);
  KILN_ASSIGN_OR_RETURN(const auto element, ElementAt(root, value, position));
  builder_.Store(buffer, IndexOf({0, StridesOf(ValueAt(value))}, position), element);
  LoopProgram program = InOrderOfUse(std::move(builder_).Finish());
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InternalError(fmt::format("{}: {}", root.name, wrong));
  }
  return program;
}

}  // namespace kiln::graph
