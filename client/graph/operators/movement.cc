// Operators that put elements to other places, or several tensors into one.
#include <fmt/format.h>

#include <algorithm>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::StatusOr<Outputs> ConcatOutputs(const Operands& operands) {
  Shape shape = operands.ShapeOf(0);
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(operands.Int("axis", 0), operands.Rank(0)));
  for (size_t i = 1; i < operands.inputs(); ++i) {
    Shape other = operands.ShapeOf(i);
    if (other.size() != shape.size()) return operands.Error("inputs differ in dimensions");
    const Size joined = shape[axis] + other[axis];
    other[axis] = shape[axis];
    if (other != shape) {
      return operands.Error(fmt::format("{} does not fit {} beside the axis", operands.Text(other),
                                        operands.Text(shape)));
    }
    shape[axis] = joined;
  }
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int ConcatElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", 0), e.Rank(0)).value_or(0);
  const DType type = e.TypeOf(0);
  Size begin = 0;
  int element = e.make().Integer(type, 0);
  for (size_t i = 0; i < e.inputs(); ++i) {
    const Size& extent = e.ShapeOf(i)[axis];
    Position source = position;
    source[axis] = e.Subtract(position[axis], e.Of(begin));
    element = e.ReadIf(e.IsWithin(source[axis], extent), type, i, source, element);
    begin += extent;
  }
  return element;
}

absl::StatusOr<Outputs> StackOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis,
                        operands.Axis(operands.Int("axis", 0), operands.Rank(0) + 1));
  Shape shape = operands.ShapeOf(0);
  for (size_t i = 1; i < operands.inputs(); ++i) {
    if (operands.ShapeOf(i) != shape) return operands.Error("inputs differ in shape");
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis),
               static_cast<int64_t>(operands.inputs()));
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int StackElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", 0), e.Rank(0) + 1).value_or(0);
  Position source = position;
  source.erase(source.begin() + static_cast<std::ptrdiff_t>(axis));
  int element = e.make().Integer(e.TypeOf(0), 0);
  for (size_t i = 0; i < e.inputs(); ++i) {
    const int is_here = e.Equal(position[axis], e.Of(static_cast<int64_t>(i)));
    element = e.ReadIf(is_here, e.TypeOf(0), i, source, element);
  }
  return element;
}

absl::StatusOr<Outputs> TileOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto repeats, operands.IntsOrInput("repeats", 1));
  Shape shape = operands.ShapeOf(0);
  if (!repeats || repeats->size() < shape.size()) {
    return operands.Error("needs a number of repeats for each dimension");
  }
  shape.insert(shape.begin(), repeats->size() - shape.size(), 1);  // as PyTorch's repeat
  for (size_t i = 0; i < shape.size(); ++i) shape[i] *= Size((*repeats)[i]);
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int TileElement(ElementEmitter& e, int, const Position& position) {
  Position source = e.Broadcast(0, position);
  for (size_t i = 0; i < source.size(); ++i) {
    source[i] = e.Remainder(source[i], e.Of(e.ShapeOf(0)[i]));
  }
  return e.Read(0, source);
}

absl::StatusOr<Outputs> SameOutputs(const Operands& operands) {
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

absl::StatusOr<Outputs> TriangleOutputs(const Operands& operands) {
  if (operands.Rank(0) < 2) return operands.Error("takes two dimensions or more");
  return SameOutputs(operands);
}

// Keeps what lies on or above (below) diagonal k of the last two dimensions, 0 elsewhere.
int Triangle(ElementEmitter& e, const Position& position, bool is_upper, int k) {
  const int row = e.Add(position[position.size() - 2], k);
  const int column = position.back();
  const int stays = is_upper ? e.LessOrEqual(row, column) : e.LessOrEqual(column, row);
  return e.ReadIf(stays, e.TypeOf(0), 0, position, e.make().Integer(e.TypeOf(0), 0));
}

int TriluElement(ElementEmitter& e, int, const Position& position) {
  const int k = e.Has(1)
                    ? e.ReadAs(DType::kI64, 1, Position(static_cast<size_t>(e.Rank(1)), e.Of(0)))
                    : e.Of(0);
  return Triangle(e, position, e.Int("upper", 1) != 0, k);
}

template <bool kIsUpper>
int TriangleElement(ElementEmitter& e, int, const Position& position) {
  return Triangle(e, position, kIsUpper, e.Of(e.Int("k", 0)));
}

absl::StatusOr<int> ReverseElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto axes, e.IntsOrInput("axes", 1));
  Position source = position;
  for (size_t i = 0; i < position.size(); ++i) {
    const auto is_axis = [&](int64_t axis) {
      return static_cast<size_t>(axis < 0 ? axis + e.Rank(0) : axis) == i;
    };
    if (axes && std::ranges::none_of(*axes, is_axis)) continue;
    source[i] = e.Subtract(e.Of(e.ShapeOf(0)[i] - Size(1)), position[i]);
  }
  return e.Read(0, source);
}

absl::StatusOr<Outputs> RollOutputs(const Operands& operands) {
  const auto shifts = operands.Ints("shifts");
  const auto axes = operands.Ints("axes");
  if (!shifts || !axes || shifts->size() != axes->size()) {
    return operands.Error("needs a shift for each of its axes");
  }
  for (const int64_t axis : *axes) {
    KILN_RETURN_IF_ERROR(operands.Axis(axis, operands.Rank(0)).status());
  }
  return SameOutputs(operands);
}

int RollElement(ElementEmitter& e, int, const Position& position) {
  const auto shifts = *e.Ints("shifts");
  const auto axes = *e.Ints("axes");
  Position source = position;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = e.Axis(axes[i], e.Rank(0)).value_or(0);
    source[axis] = e.Binary(Opcode::kFloorRemainder, e.Subtract(source[axis], e.Of(shifts[i])),
                            e.Of(e.ShapeOf(0)[axis]));
  }
  return e.Read(0, source);
}

absl::StatusOr<Outputs> ReverseSequenceOutputs(const Operands& operands) {
  if (operands.Rank(0) < 2 || operands.Rank(1) != 1) {
    return operands.Error("takes two dimensions or more, and a list of lengths");
  }
  return SameOutputs(operands);
}

int ReverseSequenceElement(ElementEmitter& e, int, const Position& position) {
  const size_t batch = e.Axis(e.Int("batch_axis", 1), e.Rank(0)).value_or(1);
  const size_t time = e.Axis(e.Int("time_axis", 0), e.Rank(0)).value_or(0);
  const int length = e.ReadAs(DType::kI64, 1, {position[batch]});
  const int mirrored = e.Subtract(e.Subtract(length, e.Of(1)), position[time]);
  Position source = position;
  source[time] = e.Select(e.Less(position[time], length), mirrored, position[time]);
  return e.Read(0, source);
}

constexpr NamedRule kMovements[] = {
    {"Concat", {Infer<ConcatOutputs>, Emit<ConcatElement>}},
    {"Stack", {Infer<StackOutputs>, Emit<StackElement>}},
    {"Tile", {Infer<TileOutputs>, Emit<TileElement>}},
    {"Trilu", {Infer<TriangleOutputs>, Emit<TriluElement>}},
    {"Triu", {Infer<TriangleOutputs>, Emit<TriangleElement<true>>}},
    {"Tril", {Infer<TriangleOutputs>, Emit<TriangleElement<false>>}},
    {"Reverse", {Infer<SameOutputs>, Emit<ReverseElement>}},
    {"Roll", {Infer<RollOutputs>, Emit<RollElement>}},
    {"ReverseSequence", {Infer<ReverseSequenceOutputs>, Emit<ReverseSequenceElement>}},
};

}  // namespace

std::span<const NamedRule> MovementRules() { return kMovements; }

}  // namespace kiln::graph
