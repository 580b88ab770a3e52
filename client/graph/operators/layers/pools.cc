// Pools: reductions over windows, or over all spatial dimensions.
#include <algorithm>
#include <limits>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/windows.h"
#include "client/graph/operators/moments.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::StatusOr<Outputs> PoolOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto window, WindowOf(operands, {}));
  KILN_ASSIGN_OR_RETURN(auto positions, PositionsOf(operands, window));
  Shape shape = {operands.ShapeOf(0)[0], operands.ShapeOf(0)[1]};
  shape.insert(shape.end(), positions.begin(), positions.end());
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

absl::StatusOr<Outputs> MaxPoolOutputs(const Operands& operands) {
  auto outputs = PoolOutputs(operands);
  if (outputs.ok()) outputs->push_back({DType::kI64, (*outputs)[0].shape});
  return outputs;
}

absl::StatusOr<Outputs> GlobalPoolOutputs(const Operands& operands) {
  if (operands.Rank(0) < 2) return operands.Error("takes [N, C, D...]");
  Shape shape = operands.ShapeOf(0);
  std::fill(shape.begin() + 2, shape.end(), Size(1));
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

// What a pool over windows reduces.
struct PoolRegion {
  Window window;
  std::vector<Loop> loops;
  Position source;
  int is_inside = 0;
};

// The window at `position`.
absl::StatusOr<PoolRegion> WindowRegion(ElementEmitter& e, const Position& position) {
  KILN_ASSIGN_OR_RETURN(Window window, WindowOf(e, {}));
  PoolRegion region{std::move(window), {}, {position[0], position[1]}, 0};
  region.loops = LoopsOf(e, region.window);
  const WindowPlace place =
      PlaceOf(e, region.window, {position.begin() + 2, position.end()}, region.loops);
  region.source.insert(region.source.end(), place.source.begin(), place.source.end());
  region.is_inside = place.is_inside;
  return region;
}

// All spatial dimensions.
Region GlobalRegion(ElementEmitter& e, const Position& position) {
  return RegionAt(e, position, 2, position.size());
}

// No element is less.
int Least(const ElementEmitter& e, DType type) {
  if (IsFloat(type)) return e.Number(type, -std::numeric_limits<double>::infinity());
  if (FactsOf(type).kind != DTypeClass::kSigned) return e.make().Integer(type, 0);
  return e.make().Integer(type, INT64_MIN >> (64 - FactsOf(type).bits));
}

// The place of the largest element in the whole input.
int IndexOfMaximum(ElementEmitter& e, const PoolRegion& region, int first,
                   const Position& position) {
  const size_t spatial = region.loops.size();
  Position source(spatial);
  int rest = first;
  for (size_t i = spatial; i-- > 0;) {
    const int extent = e.Of(region.window.kernel[i]);
    const int begin = e.Subtract(e.Multiply(position[i + 2], e.Of(region.window.strides[i])),
                                 e.Of(region.window.before[i]));
    source[i] =
        e.Add(begin, e.Multiply(e.Remainder(rest, extent), e.Of(region.window.dilations[i])));
    rest = e.Divide(rest, extent);
  }
  int index = e.Add(e.Multiply(position[0], e.Of(e.ShapeOf(0)[1])), position[1]);
  const bool is_column_major = e.Int("storage_order", 0) != 0;
  // Spatial dimensions from the slowest to the fastest one.
  for (size_t i = 0; i < spatial; ++i) {
    const size_t next = is_column_major ? spatial - 1 - i : i;
    index = e.Add(e.Multiply(index, e.Of(e.ShapeOf(0)[next + 2])), source[next]);
  }
  return index;
}

absl::StatusOr<int> MaxPoolElement(ElementEmitter& e, int output, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).compute;
  KILN_ASSIGN_OR_RETURN(const PoolRegion region, WindowRegion(e, position));
  const int x = e.ReadIf(region.is_inside, type, 0, region.source, Least(e, type));
  if (output == 0) return e.Reduce(Reduction::kMaximum, x, region.loops);
  return IndexOfMaximum(e, region, e.Reduce(Reduction::kFirstArgMaximum, x, region.loops),
                        position);
}

int GlobalMaxPoolElement(ElementEmitter& e, int, const Position& position) {
  const Region region = GlobalRegion(e, position);
  const int x = e.ReadAs(FactsOf(e.TypeOf(0)).compute, 0, region.source);
  return e.Reduce(Reduction::kMaximum, x, region.loops);
}

// Whether an element of a window counts: inside the input, or in the padding as well, but never
// where ceil_mode lets the window reach beyond it.
int Counts(ElementEmitter& e, const PoolRegion& region) {
  if (e.Int("count_include_pad", 0) == 0) return region.is_inside;
  int counts = e.make().Integer(DType::kBool, 1);
  if (!region.window.is_ceiling) return counts;
  for (size_t i = 0; i < region.loops.size(); ++i) {
    const Size end = e.ShapeOf(0)[i + 2] + Size(region.window.behind[i]);
    counts = e.And(counts, e.Less(region.source[i + 2], e.Of(end)));
  }
  return counts;
}

absl::StatusOr<int> AveragePoolElement(ElementEmitter& e, int, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  KILN_ASSIGN_OR_RETURN(const PoolRegion region, WindowRegion(e, position));
  const int x = e.ReadIf(region.is_inside, type, 0, region.source, e.Number(type, 0));
  const int count = e.Select(Counts(e, region), e.Number(type, 1), e.Number(type, 0));
  return e.Divide(e.Sum(x, region.loops), e.Sum(count, region.loops));
}

int GlobalAveragePoolElement(ElementEmitter& e, int, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Region region = GlobalRegion(e, position);
  return MeanOf(e, region, e.ReadAs(type, 0, region.source));
}

int PNorm(ElementEmitter& e, int x, const std::vector<Loop>& loops) {
  const double p = e.Float("p", 2);
  const DType type = e.TypeOfValue(x);
  const int absolute = e.Unary(Opcode::kAbsolute, x);
  if (p == 1) return e.Sum(absolute, loops);
  if (p == 2) return e.Unary(Opcode::kSquareRoot, e.Sum(e.Multiply(x, x), loops));
  const int sum = e.Sum(e.Binary(Opcode::kPower, absolute, e.Number(type, p)), loops);
  return e.Binary(Opcode::kPower, sum, e.Number(type, 1 / p));
}

absl::StatusOr<int> LpPoolElement(ElementEmitter& e, int, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  KILN_ASSIGN_OR_RETURN(const PoolRegion region, WindowRegion(e, position));
  const int x = e.ReadIf(region.is_inside, type, 0, region.source, e.Number(type, 0));
  return PNorm(e, x, region.loops);
}

int GlobalLpPoolElement(ElementEmitter& e, int, const Position& position) {
  const Region region = GlobalRegion(e, position);
  return PNorm(e, e.ReadAs(FactsOf(e.TypeOf(0)).accumulate, 0, region.source), region.loops);
}

constexpr NamedRule kPools[] = {
    {"MaxPool", {Infer<MaxPoolOutputs>, Emit<MaxPoolElement>}},
    {"AveragePool", {Infer<PoolOutputs>, Emit<AveragePoolElement>}},
    {"LpPool", {Infer<PoolOutputs>, Emit<LpPoolElement>}},
    {"GlobalMaxPool", {Infer<GlobalPoolOutputs>, Emit<GlobalMaxPoolElement>}},
    {"GlobalAveragePool", {Infer<GlobalPoolOutputs>, Emit<GlobalAveragePoolElement>}},
    {"GlobalLpPool", {Infer<GlobalPoolOutputs>, Emit<GlobalLpPoolElement>}},
};

}  // namespace

std::span<const NamedRule> PoolRules() { return kPools; }

}  // namespace kiln::graph
