// What depends on a whole tensor: its shape, its extremes, its moments.
#include <algorithm>
#include <map>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "client/graph/segment/shape.h"

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
  std::vector<Loop> loops;
  Position source;
  for (const Size& extent : e.ShapeOf(0)) {
    loops.push_back(e.NewLoop(extent));
    source.push_back(loops.back().at);
  }
  const int x = e.ReadAs(DType::kF32, 0, source);
  const int low = e.Minimum(e.Reduce(Reduction::kMinimum, x, loops), zero);
  const int high = e.Maximum(e.Reduce(Reduction::kMaximum, x, loops), zero);
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
    const auto axis = operands.Axis(number, operands.Rank(0));
    if (!axis.ok()) return axis.status();
    axes.push_back(*axis);
  }
  return axes;
}

absl::StatusOr<Outputs> VarianceOutputs(const Operands& operands) {
  if (const auto axes = VarianceAxes(operands); !axes.ok()) return axes.status();
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

std::vector<int> VarianceDimensions(const Segment& segment, const Operation& operation) {
  const auto axes = VarianceAxes(Operands(segment, operation));
  if (!axes.ok()) return {};
  std::vector<int> dimensions(axes->begin(), axes->end());
  std::ranges::sort(dimensions);
  return dimensions;
}

int VarianceElement(ElementEmitter& e, int, const Position& position) {
  const auto axes = VarianceAxes(e);
  if (!axes.ok()) {
    e.Fail(axes.status());
    return e.Of(0);
  }
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  std::vector<Loop> loops;
  Position source = position;
  Size count = 1;
  for (const size_t axis : *axes) {
    loops.push_back(e.NewLoop(e.ShapeOf(0)[axis]));
    source[axis] = loops.back().at;
    count *= e.ShapeOf(0)[axis];
  }
  const auto average = [&](int x) { return e.Divide(e.Sum(x, loops), e.Cast(type, e.Of(count))); };
  const int x = e.ReadAs(type, 0, source);
  const int mean = average(x);
  const int difference = e.Subtract(x, mean);
  const int deviation = e.Unary(Opcode::kSquareRoot, average(e.Multiply(difference, difference)));
  const int own = e.Subtract(e.ReadAs(type, 0, position), mean);
  return e.Divide(own, e.Add(deviation, e.Number(type, 1e-9)));
}

const std::map<std::string_view, LoweringRule> kStatistics = {
    {"Shape", {Infer<ShapeOutputs>, Emit<ShapeElement>}},
    {"Size", {Infer<SizeOutputs>, Emit<SizeElement>}},
    {"DynamicQuantizeLinear", {Infer<DynamicQuantizeOutputs>, Emit<DynamicQuantizeElement>}},
    {"MeanVarianceNormalization",
     {Infer<VarianceOutputs>, Emit<VarianceElement>, VarianceDimensions}},
};

}  // namespace

const LoweringRule* FindStatisticRule(std::string_view op) {
  const auto rule = kStatistics.find(op);
  return rule == kStatistics.end() ? nullptr : &rule->second;
}

}  // namespace kiln::graph
