// Operators that change no element, only where each stands.
#include <fmt/format.h>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/reshaping.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/shape.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

template <absl::StatusOr<Shape> (*kShape)(const Operands&)>
absl::StatusOr<Outputs> LikeInput(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto shape, kShape(operands));
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int ReshapeElement(ElementEmitter& e, int output, const Position& position) {
  const Shape& from = e.ShapeOf(0);
  const Shape& to = e.Output(static_cast<size_t>(output)).shape;
  Position source(from.size(), e.Of(0));
  for (const ReshapeGroup& group : GroupsOf(from, to)) {
    int rest = e.Of(0);
    for (size_t i = group.to_begin; i < group.to_end; ++i) {
      rest = e.Add(e.Multiply(rest, e.Of(to[i])), position[i]);
    }
    for (size_t i = group.from_end; i-- > group.from_begin;) {
      const bool is_first = i == group.from_begin;
      source[i] = is_first ? rest : e.Remainder(rest, e.Of(from[i]));
      if (!is_first) rest = e.Divide(rest, e.Of(from[i]));
    }
  }
  return e.Read(0, source);
}

absl::StatusOr<Shape> TransposedShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto permutation, PermutationOf(operands));
  Shape shape;
  for (const size_t axis : permutation) shape.push_back(operands.ShapeOf(0)[axis]);
  return shape;
}

absl::StatusOr<int> TransposeElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto permutation, PermutationOf(e));
  Position source(position.size());
  for (size_t i = 0; i < position.size(); ++i) source[permutation[i]] = position[i];
  return e.Read(0, source);
}

absl::StatusOr<Shape> ExpandedShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto wanted, operands.IntsOrInput("shape", 1));
  if (!wanted) return operands.Error("a shape is missing");
  const Shape& from = operands.ShapeOf(0);
  Shape to(wanted->begin(), wanted->end());
  // PyTorch's -1 keeps a size.
  for (size_t i = 0; i < to.size() && i < from.size(); ++i) {
    if (to[to.size() - 1 - i] == Size(-1)) to[to.size() - 1 - i] = from[from.size() - 1 - i];
  }
  auto shape = BroadcastShape(from, to);
  if (!shape) {
    return operands.Error(
        fmt::format("{} does not broadcast to {}", operands.Text(from), operands.Text(to)));
  }
  return *std::move(shape);
}

int ExpandElement(ElementEmitter& e, int, const Position& position) {
  return e.Read(0, e.Broadcast(0, position));
}

absl::StatusOr<Shape> SlicedShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto ranges, RangesOfSlice(operands));
  Shape shape;
  for (const SliceRange& range : ranges) shape.push_back(range.length);
  return shape;
}

absl::StatusOr<int> SliceElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto ranges, RangesOfSlice(e));
  Position source;
  for (size_t i = 0; i < position.size(); ++i) {
    const SliceRange& range = ranges[i];
    source.push_back(e.Add(e.Multiply(position[i], e.Of(range.step)), e.Of(range.start)));
  }
  return e.Read(0, source);
}

absl::StatusOr<Outputs> SplitOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto plan, PlanOfSplit(operands));
  Outputs outputs;
  for (size_t i = 0; i + 1 < plan.begins.size(); ++i) {
    Shape shape = operands.ShapeOf(0);
    shape[plan.axis] = plan.begins[i + 1] - plan.begins[i];
    outputs.push_back({operands.TypeOf(0), std::move(shape)});
  }
  return outputs;
}

absl::StatusOr<int> SplitElement(ElementEmitter& e, int output, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto plan, PlanOfSplit(e));
  Position source = position;
  source[plan.axis] = e.Add(position[plan.axis], e.Of(plan.begins[static_cast<size_t>(output)]));
  return e.Read(0, source);
}

absl::StatusOr<Outputs> UnstackOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(operands.Int("axis", 0), operands.Rank(0)));
  Shape shape = operands.ShapeOf(0);
  if (shape[axis] != Size(static_cast<int64_t>(operands.outputs()))) {
    return operands.Error(fmt::format("has {} outputs for a dimension of {}", operands.outputs(),
                                      operands.Text({shape[axis]})));
  }
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return Outputs(operands.outputs(), {operands.TypeOf(0), shape});
}

int UnstackElement(ElementEmitter& e, int output, const Position& position) {
  const auto axis = static_cast<std::ptrdiff_t>(e.Axis(e.Int("axis", 0), e.Rank(0)).value_or(0));
  Position source = position;
  source.insert(source.begin() + axis, e.Of(output));
  return e.Read(0, source);
}

// [N, C, H, W] between a depth of b * b * C' and b * b more places.
absl::StatusOr<Shape> ShapeInDepth(const Operands& operands) {
  const int64_t block = operands.Int("blocksize", operands.Int("upscale_factor", 0));
  if (operands.Rank(0) != 4 || block < 1) {
    return operands.Error("takes four dimensions and a positive blocksize");
  }
  return operands.ShapeOf(0);
}

absl::StatusOr<Shape> DepthToSpaceShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto shape, ShapeInDepth(operands));
  const int64_t block = operands.Int("blocksize", operands.Int("upscale_factor", 0));
  const auto depth = Quotient(shape[1], block * block);
  if (!depth) return operands.Error("blocksize squared has to divide the channels");
  return Shape{shape[0], *depth, shape[2] * Size(block), shape[3] * Size(block)};
}

int DepthToSpaceElement(ElementEmitter& e, int, const Position& position) {
  const bool is_shuffle = e.HasAttribute("upscale_factor");
  const int64_t size = e.Int("blocksize", e.Int("upscale_factor", 1));
  const int block = e.Of(size);
  const int row = e.Remainder(position[2], block);
  const int column = e.Remainder(position[3], block);
  const int place = e.Add(e.Multiply(row, block), column);
  const int squared = e.Of(size * size);
  const int depth = e.Of(*Quotient(e.ShapeOf(0)[1], size * size));
  const int channel = is_shuffle || e.String("mode", "DCR") == "CRD"
                          ? e.Add(e.Multiply(position[1], squared), place)
                          : e.Add(e.Multiply(place, depth), position[1]);
  return e.Read(0,
                {position[0], channel, e.Divide(position[2], block), e.Divide(position[3], block)});
}

absl::StatusOr<Shape> SpaceToDepthShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto shape, ShapeInDepth(operands));
  const int64_t block = operands.Int("blocksize", 0);
  const auto height = Quotient(shape[2], block);
  const auto width = Quotient(shape[3], block);
  if (!height || !width) return operands.Error("blocksize has to divide height and width");
  return Shape{shape[0], shape[1] * Size(block * block), *height, *width};
}

int SpaceToDepthElement(ElementEmitter& e, int, const Position& position) {
  const int block = e.Of(e.Int("blocksize", 1));
  const bool is_depth_last = e.String("mode", "DCR") == "CRD";
  const int inner = is_depth_last ? e.Multiply(block, block) : e.Of(e.ShapeOf(0)[1]);
  const int quotient = e.Divide(position[1], inner);
  const int rest = e.Remainder(position[1], inner);
  const int place = is_depth_last ? rest : quotient;
  const int channel = is_depth_last ? quotient : rest;
  const int row = e.Add(e.Multiply(position[2], block), e.Divide(place, block));
  const int column = e.Add(e.Multiply(position[3], block), e.Remainder(place, block));
  return e.Read(0, {position[0], channel, row, column});
}

constexpr NamedRule kViews[] = {
    {"Reshape", {Infer<LikeInput<ReshapedShape>>, Emit<ReshapeElement>}},
    {"Flatten", {Infer<LikeInput<FlattenedShape>>, Emit<ReshapeElement>}},
    {"Squeeze", {Infer<LikeInput<SqueezedShape>>, Emit<ReshapeElement>}},
    {"Unsqueeze", {Infer<LikeInput<UnsqueezedShape>>, Emit<ReshapeElement>}},
    {"Transpose", {Infer<LikeInput<TransposedShape>>, Emit<TransposeElement>}},
    {"Expand", {Infer<LikeInput<ExpandedShape>>, Emit<ExpandElement>}},
    {"Slice", {Infer<LikeInput<SlicedShape>>, Emit<SliceElement>}},
    {"Split", {Infer<SplitOutputs>, Emit<SplitElement>}},
    {"Unstack", {Infer<UnstackOutputs>, Emit<UnstackElement>}},
    {"DepthToSpace", {Infer<LikeInput<DepthToSpaceShape>>, Emit<DepthToSpaceElement>}},
    {"PixelShuffle", {Infer<LikeInput<DepthToSpaceShape>>, Emit<DepthToSpaceElement>}},
    {"SpaceToDepth", {Infer<LikeInput<SpaceToDepthShape>>, Emit<SpaceToDepthElement>}},
};

}  // namespace

std::span<const NamedRule> ViewRules() { return kViews; }

}  // namespace kiln::graph
