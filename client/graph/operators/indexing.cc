// Operators whose places come from data.
#include <fmt/format.h>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

using Difference = std::ptrdiff_t;

// Indices beyond the tensor read nothing and give 0.
int ReadAt(ElementEmitter& e, int is_inside, const Position& source) {
  const DType type = e.TypeOf(0);
  return e.ReadIf(is_inside, type, 0, source, e.make().Integer(type, 0));
}

absl::StatusOr<Outputs> GatherOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(operands.Int("axis", 0), operands.Rank(0)));
  Shape shape = operands.ShapeOf(0);
  const auto at = shape.erase(shape.begin() + static_cast<Difference>(axis));
  shape.insert(at, operands.ShapeOf(1).begin(), operands.ShapeOf(1).end());
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int GatherElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", 0), e.Rank(0)).value_or(0);
  const auto begin = position.begin() + static_cast<Difference>(axis);
  const auto end = begin + e.Rank(1);
  const Size& extent = e.ShapeOf(0)[axis];
  const int index = e.ReadIndex(1, Position(begin, end), extent);
  Position source(position.begin(), begin);
  source.push_back(index);
  source.insert(source.end(), end, position.end());
  return ReadAt(e, e.IsWithin(index, extent), source);
}

absl::StatusOr<Outputs> GatherElementsOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(operands.Axis(operands.Int("axis", 0), operands.Rank(0)).status());
  if (operands.Rank(0) != operands.Rank(1)) {
    return operands.Error("data and indices need the same number of dimensions");
  }
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(1)}};
}

int GatherElementsElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", 0), e.Rank(0)).value_or(0);
  const Size& extent = e.ShapeOf(0)[axis];
  Position source = position;
  source[axis] = e.ReadIndex(1, position, extent);
  return ReadAt(e, e.IsWithin(source[axis], extent), source);
}

absl::StatusOr<Outputs> GatherNdOutputs(const Operands& operands) {
  const Shape& data = operands.ShapeOf(0);
  const Shape& indices = operands.ShapeOf(1);
  const int64_t batch = operands.Int("batch_dims", 0);
  const auto depth = indices.empty() ? std::nullopt : indices.back().Constant();
  if (!depth || batch < 0 || batch >= operands.Rank(1) || batch + *depth > operands.Rank(0)) {
    return operands.Error("the last dimension of indices has to be a number of dimensions of data");
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch + *depth, data.end());
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int GatherNdElement(ElementEmitter& e, int, const Position& position) {
  const Difference batch = e.Int("batch_dims", 0);
  const Difference outer = e.Rank(1) - 1;
  const int64_t depth = *e.ShapeOf(1).back().Constant();
  Position place(position.begin(), position.begin() + outer);
  Position source(position.begin(), position.begin() + batch);
  int is_inside = e.make().Integer(DType::kBool, 1);
  place.push_back(0);
  for (int64_t i = 0; i < depth; ++i) {
    place.back() = e.Of(i);
    const Size& extent = e.ShapeOf(0)[static_cast<size_t>(batch + i)];
    source.push_back(e.ReadIndex(1, place, extent));
    is_inside = e.And(is_inside, e.IsWithin(source.back(), extent));
  }
  source.insert(source.end(), position.begin() + outer, position.end());
  return ReadAt(e, is_inside, source);
}

absl::StatusOr<Outputs> OneHotOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto depth, operands.IntsOrInput("depth", 1));
  if (!depth || depth->size() != 1) return operands.Error("depth is one number");
  KILN_ASSIGN_OR_RETURN(const auto axis,
                        operands.Axis(operands.Int("axis", -1), operands.Rank(0) + 1));
  Shape shape = operands.ShapeOf(0);
  shape.insert(shape.begin() + static_cast<Difference>(axis), (*depth)[0]);
  return Outputs{{operands.TypeOf(2), std::move(shape)}};
}

int OneHotElement(ElementEmitter& e, int output, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", -1), e.Rank(0) + 1).value_or(0);
  Position source = position;
  source.erase(source.begin() + static_cast<Difference>(axis));
  const int index = e.ReadIndex(0, source, e.Output(static_cast<size_t>(output)).shape[axis]);
  const int off = e.Read(2, {e.Of(0)});
  const int on = e.Read(2, {e.Of(1)});
  return e.Select(e.Equal(index, position[axis]), on, off);
}

absl::StatusOr<Outputs> ScatterOutputs(const Operands& operands) {
  const std::string reduction = operands.String("reduction", "none");
  if (reduction != "none" && reduction != "add" && reduction != "mul" && reduction != "min" &&
      reduction != "max") {
    return operands.Error(fmt::format("reduction \"{}\" is unknown", reduction));
  }
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

// Every element of the output looks for the updates that go to it: no program of several passes,
// and the last update wins in every run. `hits` says whether the update at the loops' position is
// one; `update_at` gives its place from positions of the loops.
template <typename UpdateAt>
int Scattered(ElementEmitter& e, const Position& position, const std::vector<Loop>& loops,
              const Shape& extents, int hits, UpdateAt update_at) {
  const std::string reduction = e.String("reduction", "none");
  const int data = e.Read(0, position);
  Position at;
  for (const Loop& loop : loops) at.push_back(loop.at);
  if (reduction == "none") {
    int place = e.Of(0);
    for (size_t i = 0; i < loops.size(); ++i) {
      place = e.Add(e.Multiply(place, e.Of(extents[i])), loops[i].at);
    }
    int rest = e.Reduce(Reduction::kMaximum, e.Select(hits, place, e.Of(-1)), loops);
    const int is_hit = e.LessOrEqual(e.Of(0), rest);
    for (size_t i = loops.size(); i-- > 0;) {
      at[i] = e.Remainder(rest, e.Of(extents[i]));
      rest = e.Divide(rest, e.Of(extents[i]));
    }
    return e.ReadIf(is_hit, e.TypeOf(0), 2, update_at(at), data);
  }
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const int old = e.Cast(type, data);
  const bool is_sum = reduction == "add";
  const bool is_product = reduction == "mul";
  // Updates that go elsewhere change nothing.
  const int nothing = is_sum || is_product ? e.Number(type, is_sum ? 0 : 1) : old;
  const int update = e.ReadIf(hits, type, 2, update_at(at), nothing);
  if (is_sum) return e.Add(old, e.Sum(update, loops));
  if (is_product) return e.Multiply(old, e.Reduce(Reduction::kProduct, update, loops));
  const bool is_least = reduction == "min";
  const int extreme = e.Reduce(is_least ? Reduction::kMinimum : Reduction::kMaximum, update, loops);
  return is_least ? e.Minimum(old, extreme) : e.Maximum(old, extreme);
}

absl::StatusOr<Outputs> ScatterElementsOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(operands.Axis(operands.Int("axis", 0), operands.Rank(0)).status());
  if (operands.Rank(0) != operands.Rank(1) || operands.ShapeOf(1) != operands.ShapeOf(2)) {
    return operands.Error("indices and updates need one shape, with the dimensions of data");
  }
  return ScatterOutputs(operands);
}

int ScatterElementsElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", 0), e.Rank(0)).value_or(0);
  const Shape& shape = e.ShapeOf(1);
  const Loop loop = e.NewLoop(shape[axis]);
  int is_inside = e.make().Integer(DType::kBool, 1);
  for (size_t i = 0; i < position.size(); ++i) {
    if (i == axis || shape[i] == e.ShapeOf(0)[i]) continue;
    is_inside = e.And(is_inside, e.Less(position[i], e.Of(shape[i])));
  }
  const auto update_at = [&](const Position& at) {
    Position place = position;
    place[axis] = at[0];
    return place;
  };
  int index = e.ReadIf(is_inside, DType::kI64, 1, update_at({loop.at}),
                       e.Of(Size(-1) - e.ShapeOf(0)[axis]));
  index = e.Select(e.Less(index, e.Of(0)), e.Add(index, e.Of(e.ShapeOf(0)[axis])), index);
  return Scattered(e, position, {loop}, {shape[axis]}, e.Equal(index, position[axis]), update_at);
}

absl::StatusOr<Outputs> ScatterNdOutputs(const Operands& operands) {
  const Shape& indices = operands.ShapeOf(1);
  const auto depth = indices.empty() ? std::nullopt : indices.back().Constant();
  if (!depth || *depth > operands.Rank(0)) {
    return operands.Error("the last dimension of indices has to be a number of dimensions of data");
  }
  Shape updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), operands.ShapeOf(0).begin() + *depth, operands.ShapeOf(0).end());
  if (operands.ShapeOf(2) != updates) {
    return operands.Error(fmt::format("updates have to be {}", operands.Text(updates)));
  }
  return ScatterOutputs(operands);
}

int ScatterNdElement(ElementEmitter& e, int, const Position& position) {
  const Shape extents(e.ShapeOf(1).begin(), e.ShapeOf(1).end() - 1);
  const int64_t depth = *e.ShapeOf(1).back().Constant();
  std::vector<Loop> loops;
  Position place;
  for (const Size& extent : extents) {
    loops.push_back(e.NewLoop(extent));
    place.push_back(loops.back().at);
  }
  place.push_back(0);
  int hits = e.make().Integer(DType::kBool, 1);
  for (int64_t i = 0; i < depth; ++i) {
    place.back() = e.Of(i);
    const auto dimension = static_cast<size_t>(i);
    const int index = e.ReadIndex(1, place, e.ShapeOf(0)[dimension]);
    hits = e.And(hits, e.Equal(index, position[dimension]));
  }
  return Scattered(e, position, loops, extents, hits, [&](const Position& at) {
    Position update = at;
    update.insert(update.end(), position.begin() + depth, position.end());
    return update;
  });
}

absl::StatusOr<Outputs> TensorScatterOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(operands.Int("axis", -2), operands.Rank(0)));
  Shape update = operands.ShapeOf(0);
  if (operands.Rank(1) == operands.Rank(0)) update[axis] = operands.ShapeOf(1)[axis];
  if (axis == 0 || operands.ShapeOf(1) != update ||
      (operands.Has(2) && operands.ShapeOf(2) != Shape{update[0]})) {
    return operands.Error(
        "updates differ from the cache beside the axis, or places from the batch");
  }
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

int TensorScatterElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = e.Axis(e.Int("axis", -2), e.Rank(0)).value_or(1);
  const int begin = e.Has(2) ? e.ReadAs(DType::kI64, 2, {position[0]}) : e.Of(0);
  Position source = position;
  source[axis] = e.Subtract(position[axis], begin);
  if (e.String("mode", "linear") == "circular") {
    source[axis] = e.Binary(Opcode::kFloorRemainder, source[axis], e.Of(e.ShapeOf(0)[axis]));
  }
  const int is_new = e.IsWithin(source[axis], e.ShapeOf(1)[axis]);
  const int old = e.Read(0, position);
  return e.ReadIf(is_new, e.TypeOf(0), 1, source, old);
}

constexpr NamedRule kIndexings[] = {
    {"Embedding", {Infer<GatherOutputs>, Emit<GatherElement>}},
    {"Gather", {Infer<GatherOutputs>, Emit<GatherElement>}},
    {"GatherElements", {Infer<GatherElementsOutputs>, Emit<GatherElementsElement>}},
    {"GatherND", {Infer<GatherNdOutputs>, Emit<GatherNdElement>}},
    {"OneHot", {Infer<OneHotOutputs>, Emit<OneHotElement>}},
    {"Scatter", {Infer<ScatterElementsOutputs>, Emit<ScatterElementsElement>}},
    {"ScatterElements", {Infer<ScatterElementsOutputs>, Emit<ScatterElementsElement>}},
    {"TensorScatter", {Infer<TensorScatterOutputs>, Emit<TensorScatterElement>}},
    {"ScatterND", {Infer<ScatterNdOutputs>, Emit<ScatterNdElement>}},
};

}  // namespace

std::span<const NamedRule> IndexingRules() { return kIndexings; }

}  // namespace kiln::graph
