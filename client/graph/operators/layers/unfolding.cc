// Windows as columns, columns as images, and what pools left of images.
#include <fmt/format.h>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/windows.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/shape.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// Digits of `number` in a mixed radix, the last one running fastest.
Position DigitsOf(ElementEmitter& e, int number, const Shape& extents) {
  Position digits(extents.size());
  for (size_t i = extents.size(); i-- > 0;) {
    digits[i] = i == 0 ? number : e.Remainder(number, e.Of(extents[i]));
    number = e.Divide(number, e.Of(extents[i]));
  }
  return digits;
}

int NumberOf(ElementEmitter& e, const Position& digits, const Shape& extents) {
  int number = e.Of(0);
  for (size_t i = 0; i < digits.size(); ++i) {
    number = e.Add(e.Multiply(number, e.Of(extents[i])), digits[i]);
  }
  return number;
}

// --- Im2Col: [N, C, D...] to [N, C * elements of a window, windows], as PyTorch's unfold ---

absl::StatusOr<Outputs> Im2ColOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto window, WindowOf(operands, {}));
  KILN_ASSIGN_OR_RETURN(const auto positions, PositionsOf(operands, window));
  const Shape& x = operands.ShapeOf(0);
  return Outputs{
      {operands.TypeOf(0), {x[0], x[1] * ElementsOf(window.kernel), ElementsOf(positions)}}};
}

absl::StatusOr<int> Im2ColElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto window, WindowOf(e, {}));
  KILN_ASSIGN_OR_RETURN(const auto positions, PositionsOf(e, window));
  Shape rows = {e.ShapeOf(0)[1]};
  rows.insert(rows.end(), window.kernel.begin(), window.kernel.end());
  const Position row = DigitsOf(e, position[1], rows);
  std::vector<Loop> offsets;
  for (size_t i = 1; i < row.size(); ++i) offsets.push_back({.at = row[i]});
  const WindowPlace place = PlaceOf(e, window, DigitsOf(e, position[2], positions), offsets);
  Position source = {position[0], row[0]};
  source.insert(source.end(), place.source.begin(), place.source.end());
  return e.ReadIf(place.is_inside, e.TypeOf(0), 0, source, e.make().Integer(e.TypeOf(0), 0));
}

// --- Col2Im: the sum of what Im2Col makes of each element ---

struct Folding {
  Window window;
  Shape image;
  Shape windows;  // how many there are
};

absl::StatusOr<Folding> FoldingOf(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto image, operands.IntsOrInput("image_shape", 1));
  KILN_ASSIGN_OR_RETURN(const auto block, operands.IntsOrInput("block_shape", 2));
  if (!image || !block || image->size() != block->size() || operands.Rank(0) != 3) {
    return operands.Error("takes [N, C * block, L], and shapes of an image and a block");
  }
  const Shape kernel(block->begin(), block->end());
  KILN_ASSIGN_OR_RETURN(auto window, WindowOver(operands, kernel, kernel.size()));
  Folding folding{std::move(window), {image->begin(), image->end()}, {}};
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t span = ((*block)[i] - 1) * folding.window.dilations[i] + 1;
    const int64_t room = (*image)[i] + folding.window.before[i] + folding.window.behind[i] - span;
    folding.windows.emplace_back(room < 0 ? 0 : room / folding.window.strides[i] + 1);
  }
  const Shape& x = operands.ShapeOf(0);
  if (x[2] != ElementsOf(folding.windows) || !Quotient(x[1], ElementsOf(kernel))) {
    return operands.Error(fmt::format("{} does not have {} windows of {}", operands.Text(x),
                                      operands.Text(folding.windows), operands.Text(kernel)));
  }
  return folding;
}

absl::StatusOr<Outputs> Col2ImOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto folding, FoldingOf(operands));
  const Shape& x = operands.ShapeOf(0);
  Shape shape = {x[0], *Quotient(x[1], ElementsOf(folding.window.kernel))};
  shape.insert(shape.end(), folding.image.begin(), folding.image.end());
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

absl::StatusOr<int> Col2ImElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto folding, FoldingOf(e));
  const std::vector<Loop> loops = LoopsOf(e, folding.window);
  const Position at(position.begin() + 2, position.end());
  const WindowPlace place = WindowAt(e, folding.window, at, loops, folding.windows);
  Position row = {position[1]};
  for (const Loop& loop : loops) row.push_back(loop.at);
  Shape rows = {1};
  rows.insert(rows.end(), folding.window.kernel.begin(), folding.window.kernel.end());
  const int row_number = NumberOf(e, row, rows);
  const int column = NumberOf(e, place.source, folding.windows);
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const int nothing = e.Number(type, 0);
  return e.Sum(e.ReadIf(place.is_inside, type, 0, {position[0], row_number, column}, nothing),
               loops);
}

// --- MaxUnpool: elements go back to where MaxPool found them, 0 elsewhere ---

struct Unpooling {
  Window window;
  Shape pooled;  // spatial dimensions of what MaxPool took, which indices count in
  Shape output;
};

absl::StatusOr<Unpooling> UnpoolingOf(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto window, WindowOf(operands, {}));
  if (operands.ShapeOf(1) != operands.ShapeOf(0)) {
    return operands.Error("needs an index for each element");
  }
  const Shape& x = operands.ShapeOf(0);
  Unpooling unpooling{std::move(window), {}, {x[0], x[1]}};
  const Window& own = unpooling.window;
  for (size_t i = 0; i < own.kernel.size(); ++i) {
    unpooling.pooled.push_back((x[i + 2] - Size(1)) * Size(own.strides[i]) + own.kernel[i] -
                               Size(own.before[i]) - Size(own.behind[i]));
  }
  KILN_ASSIGN_OR_RETURN(const auto wanted, operands.IntsOrInput("output_shape", 2));
  if (wanted && wanted->size() != x.size()) {
    return operands.Error("output_shape needs a number for each dimension");
  }
  if (wanted) unpooling.output.assign(wanted->begin(), wanted->end());
  if (!wanted) {
    unpooling.output.insert(unpooling.output.end(), unpooling.pooled.begin(),
                            unpooling.pooled.end());
  }
  return unpooling;
}

absl::StatusOr<Outputs> MaxUnpoolOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto unpooling, UnpoolingOf(operands));
  return Outputs{{operands.TypeOf(0), unpooling.output}};
}

// Only windows that have the position can have found their largest element there.
absl::StatusOr<int> MaxUnpoolElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto unpooling, UnpoolingOf(e));
  const std::vector<Loop> loops = LoopsOf(e, unpooling.window);
  const Position at(position.begin() + 2, position.end());
  const Shape windows(e.ShapeOf(0).begin() + 2, e.ShapeOf(0).end());
  WindowPlace place = WindowAt(e, unpooling.window, at, loops, windows);
  Shape extents = {1, e.ShapeOf(0)[1]};
  extents.insert(extents.end(), unpooling.pooled.begin(), unpooling.pooled.end());
  for (size_t i = 0; i < at.size(); ++i) {
    place.is_inside = e.And(place.is_inside, e.Less(at[i], e.Of(unpooling.pooled[i])));
  }
  Position source = {position[0], position[1]};
  source.insert(source.end(), place.source.begin(), place.source.end());
  const int own = NumberOf(e, position, extents);
  const int index = e.ReadIf(place.is_inside, DType::kI64, 1, source, e.Of(-1));
  const int is_hit = e.Equal(index, own);
  // Windows that overlap found the same element.
  const int number = NumberOf(e, place.source, windows);
  const int best = e.Reduce(Reduction::kMaximum, e.Select(is_hit, number, e.Of(-1)), loops);
  Position found = {position[0], position[1]};
  const Position window_found = DigitsOf(e, best, windows);
  found.insert(found.end(), window_found.begin(), window_found.end());
  const int is_found = e.LessOrEqual(e.Of(0), best);
  return e.ReadIf(is_found, e.TypeOf(0), 0, found, e.make().Integer(e.TypeOf(0), 0));
}

constexpr NamedRule kUnfoldings[] = {
    {"Im2Col", {Infer<Im2ColOutputs>, Emit<Im2ColElement>}},
    {"Col2Im", {Infer<Col2ImOutputs>, Emit<Col2ImElement>}},
    {"MaxUnpool", {Infer<MaxUnpoolOutputs>, Emit<MaxUnpoolElement>}},
};

}  // namespace

std::span<const NamedRule> UnfoldingRules() { return kUnfoldings; }

}  // namespace kiln::graph
