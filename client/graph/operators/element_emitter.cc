#include "client/graph/operators/element_emitter.h"

#include <utility>

namespace kiln::graph {

int ElementEmitter::Read(size_t input, const Position& position) {
  auto element = elements_.Read(Number(input), position);
  if (element.ok()) return *element;
  if (status_.ok()) status_ = element.status();
  return make_.Integer(TypeOf(input), 0);
}

int ElementEmitter::ReadAs(DType type, size_t input, const Position& position) {
  return Cast(type, Read(input, position));
}

int ElementEmitter::ReadIf(int condition, DType type, size_t input, const Position& position,
                           int otherwise) {
  elements_.BeginGuard(condition);
  const int element = ReadAs(type, input, position);
  elements_.EndGuard();
  return Select(condition, element, otherwise);
}

int ElementEmitter::ReadIndex(size_t input, const Position& position, const Size& extent) {
  const int index = ReadAs(DType::kI64, input, position);
  return Select(Less(index, Of(0)), Add(index, Of(extent)), index);
}

Position ElementEmitter::Broadcast(size_t input, const Position& position) const {
  const Shape& shape = ShapeOf(input);
  Position own(position.end() - static_cast<std::ptrdiff_t>(shape.size()), position.end());
  for (size_t i = 0; i < own.size(); ++i) {
    if (shape[i] == Size(1)) own[i] = Of(0);
  }
  return own;
}

absl::StatusOr<int> ElementEmitter::Result(int value) const {
  if (!status_.ok()) return status_;
  return value;
}

Loop ElementEmitter::NewLoop(const Size& extent) {
  const int axis = make_.AddInnerAxis(extent);
  return {axis, make_.AxisAt(axis)};
}

int ElementEmitter::Reduce(Reduction reduction, int x, const std::vector<Loop>& loops) {
  if (loops.empty()) return x;
  std::vector<int> axes;
  for (const Loop& loop : loops) axes.push_back(loop.axis);
  return make_.Reduce(reduction, x, std::move(axes));
}

int ElementEmitter::IsWithin(int x, const Size& extent) const {
  return And(LessOrEqual(Of(0), x), Less(x, Of(extent)));
}

}  // namespace kiln::graph
