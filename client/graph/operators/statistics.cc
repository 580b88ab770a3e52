// What depends on a whole tensor: its shape, its extremes, its moments.
#include <algorithm>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/moments.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/shape.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// The dimensions that Shape gives.
Shape ListedDimensions(const Operands& operands) {
  const int64_t rank = operands.Rank(0);
  const auto bound = [&](int64_t end) {
    return std::clamp<int64_t>(end < 0 ? end + rank : end, 0, rank);
  };
  const int64_t begin = bound(operands.Int("start", 0));
  const int64_t end = std::max(begin, bound(operands.Int("end", rank)));
  const Shape& shape = operands.ShapeOf(0);
  return {shape.begin() + begin, shape.begin() + end};
}

absl::StatusOr<Outputs> ShapeOutputs(const Operands& operands) {
  return Outputs{{DType::kI64, {static_cast<int64_t>(ListedDimensions(operands).size())}}};
}

int ShapeElement(ElementEmitter& e, int, const Position& position) {
  const Shape dimensions = ListedDimensions(e);
  int element = e.Of(0);
  for (size_t i = dimensions.size(); i-- > 0;) {
    const int is_here = e.Equal(position[0], e.Of(static_cast<int64_t>(i)));
    element = e.Select(is_here, e.Of(dimensions[i]), element);
  }
  return element;
}

absl::StatusOr<Outputs> SizeOutputs(const Operands&) { return Outputs{{DType::kI64, {}}}; }

int SizeElement(ElementEmitter& e, int, const Position&) { return e.Of(ElementsOf(e.ShapeOf(0))); }

absl::StatusOr<Outputs> DynamicQuantizeOutputs(const Operands& operands) {
  return Outputs{{DType::kU8, operands.ShapeOf(0)}, {DType::kF32, {}}, {DType::kU8, {}}};
}

// The tensor's extremes and 0, spread over 0 ... 255.
int DynamicQuantizeElement(ElementEmitter& e, int output, const Position& position) {
  const int zero = e.Number(DType::kF32, 0);
  const int most = e.Number(DType::kF32, 255);
  const size_t rank = e.ShapeOf(0).size();
  const Region all = RegionAt(e, Position(rank), 0, rank);
  const int x = e.ReadAs(DType::kF32, 0, all.source);
  const int low = e.Minimum(e.Reduce(Reduction::kMinimum, x, all.loops), zero);
  const int high = e.Maximum(e.Reduce(Reduction::kMaximum, x, all.loops), zero);
  const int scale = e.Divide(e.Subtract(high, low), most);
  if (output == 1) return scale;
  const auto saturated = [&](int y) { return e.Maximum(zero, e.Minimum(y, most)); };
  const int from = e.Divide(e.Subtract(zero, low), scale);
  const int zero_point = e.Unary(Opcode::kRoundToEven, saturated(from));
  if (output == 2) return zero_point;
  const int own = e.Divide(e.ReadAs(DType::kF32, 0, position), scale);
  return saturated(e.Add(e.Unary(Opcode::kRoundToEven, own), zero_point));
}

absl::StatusOr<std::vector<size_t>> VarianceAxes(const Operands& operands) {
  std::vector<size_t> axes;
  for (const int64_t number : operands.Ints("axes").value_or(std::vector<int64_t>{0, 2, 3})) {
    KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(number, operands.Rank(0)));
    axes.push_back(axis);
  }
  return axes;
}

absl::StatusOr<Outputs> VarianceOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(VarianceAxes(operands).status());
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

std::vector<int> VarianceDimensions(const Segment& segment, const Operation& operation) {
  const auto axes = VarianceAxes(Operands(segment, operation));
  if (!axes.ok()) return {};
  std::vector<int> dimensions(axes->begin(), axes->end());
  std::ranges::sort(dimensions);
  return dimensions;
}

absl::StatusOr<int> VarianceElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto axes, VarianceAxes(e));
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Region region = RegionOver(e, position, axes);
  const int x = e.ReadAs(type, 0, region.source);
  const int mean = MeanOf(e, region, x);
  const int difference = e.Subtract(x, mean);
  const int variance = MeanOf(e, region, e.Multiply(difference, difference));
  const int deviation = e.Unary(Opcode::kSquareRoot, variance);
  const int own = e.Subtract(e.ReadAs(type, 0, position), mean);
  return e.Divide(own, e.Add(deviation, e.Number(type, 1e-9)));
}

constexpr NamedRule kStatistics[] = {
    {"Shape", {Infer<ShapeOutputs>, Emit<ShapeElement>}},
    {"Size", {Infer<SizeOutputs>, Emit<SizeElement>}},
    {"DynamicQuantizeLinear", {Infer<DynamicQuantizeOutputs>, Emit<DynamicQuantizeElement>}},
    {"MeanVarianceNormalization",
     {Infer<VarianceOutputs>, Emit<VarianceElement>, VarianceDimensions}},
};

}  // namespace

std::span<const NamedRule> StatisticRules() { return kStatistics; }

}  // namespace kiln::graph
