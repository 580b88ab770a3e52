// Softmaxes and normalizations: reductions that each position of an axis shares.
#include <numeric>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/moments.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

DType AccumulateType(const ElementEmitter& e) { return FactsOf(e.TypeOf(0)).accumulate; }

size_t NormalizedAxis(const Operands& operands) {
  return operands.Axis(operands.Int("axis", -1), operands.Rank(0)).value_or(0);
}

// The dimensions from `axis` on, or it alone.
std::vector<int> AxisAlone(const Segment& segment, const Operation& operation) {
  return {static_cast<int>(NormalizedAxis(Operands(segment, operation)))};
}
std::vector<int> AxisAndBehind(const Segment& segment, const Operation& operation) {
  const Operands operands(segment, operation);
  const size_t axis = NormalizedAxis(operands);
  std::vector<int> dimensions(static_cast<size_t>(operands.Rank(0)) - axis);
  std::iota(dimensions.begin(), dimensions.end(), static_cast<int>(axis));
  return dimensions;
}
std::vector<int> SpatialDimensions(const Segment& segment, const Operation& operation) {
  std::vector<int> dimensions;
  for (int64_t i = 2; i < Operands(segment, operation).Rank(0); ++i) {
    dimensions.push_back(static_cast<int>(i));
  }
  return dimensions;
}

absl::StatusOr<Outputs> AxisOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(operands.Axis(operands.Int("axis", -1), operands.Rank(0)).status());
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

struct SoftmaxParts {
  int shifted = 0;  // x - max
  int sum = 0;      // of exponentials of all
};
SoftmaxParts PartsOfSoftmax(ElementEmitter& e, const Position& position) {
  const size_t axis = NormalizedAxis(e);
  const DType type = AccumulateType(e);
  const Region region = RegionAt(e, position, axis, axis + 1);
  const int other = e.ReadAs(type, 0, region.source);
  const int largest = e.Reduce(Reduction::kMaximum, other, region.loops);
  const int exponential = e.Unary(Opcode::kExponential, e.Subtract(other, largest));
  return {e.Subtract(e.ReadAs(type, 0, position), largest), e.Sum(exponential, region.loops)};
}

int SoftmaxElement(ElementEmitter& e, int, const Position& position) {
  const SoftmaxParts parts = PartsOfSoftmax(e, position);
  // A division for each row, not for each element: on an H200 those took longer than its memory.
  // The largest element adds 1 to the sum, so that the reciprocal is between 0 and 1.
  const int share = e.Divide(e.Number(e.TypeOfValue(parts.sum), 1), parts.sum);
  return e.Multiply(e.Unary(Opcode::kExponential, parts.shifted), share);
}

int LogSoftmaxElement(ElementEmitter& e, int, const Position& position) {
  const SoftmaxParts parts = PartsOfSoftmax(e, position);
  return e.Subtract(parts.shifted, e.Unary(Opcode::kLogarithm, parts.sum));
}

int HardmaxElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = NormalizedAxis(e);
  const Region region = RegionAt(e, position, axis, axis + 1);
  const int x = e.ReadAs(AccumulateType(e), 0, region.source);
  const int first = e.Reduce(Reduction::kFirstArgMaximum, x, region.loops);
  return e.Cast(DType::kI32, e.Equal(first, position[axis]));
}

// scale * x + bias, as far as they are given.
int Scaled(ElementEmitter& e, int x, const Position& scale_at, size_t scale = 1) {
  const DType type = e.TypeOfValue(x);
  if (e.Has(scale)) x = e.Multiply(x, e.ReadAs(type, scale, scale_at));
  if (e.Has(scale + 1)) x = e.Add(x, e.ReadAs(type, scale + 1, scale_at));
  return x;
}

absl::StatusOr<Outputs> LayerNormOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto outputs, AxisOutputs(operands));
  for (size_t i = 1; i < operands.inputs(); ++i) {
    if (operands.Has(i) && operands.Rank(i) > operands.Rank(0)) {
      return operands.Error("scale and bias have more dimensions than the input");
    }
  }
  Shape reduced = operands.ShapeOf(0);
  for (size_t i = NormalizedAxis(operands); i < reduced.size(); ++i) reduced[i] = 1;
  const DType type = FactsOf(operands.TypeOf(0)).accumulate;
  outputs.push_back({type, reduced});
  outputs.push_back({type, reduced});
  return outputs;
}

int LayerNormElement(ElementEmitter& e, int output, const Position& position) {
  const DType type = AccumulateType(e);
  const Region region = RegionAt(e, position, NormalizedAxis(e), position.size());
  const Moments moments = MomentsOf(e, region, e.ReadAs(type, 0, region.source));
  if (output == 1) return moments.mean;
  if (output == 2) return moments.inverse_deviation;
  int y =
      e.Multiply(e.Subtract(e.ReadAs(type, 0, position), moments.mean), moments.inverse_deviation);
  if (e.Has(1)) y = e.Multiply(y, e.ReadAs(type, 1, e.Broadcast(1, position)));
  if (e.Has(2)) y = e.Add(y, e.ReadAs(type, 2, e.Broadcast(2, position)));
  return y;
}

int RmsNormElement(ElementEmitter& e, int, const Position& position) {
  const DType type = AccumulateType(e);
  const Region region = RegionAt(e, position, NormalizedAxis(e), position.size());
  const int other = e.ReadAs(type, 0, region.source);
  const int scale = InverseDeviation(e, MeanOf(e, region, e.Multiply(other, other)));
  const int y = e.Multiply(e.ReadAs(type, 0, position), scale);
  return e.Has(1) ? e.Multiply(y, e.ReadAs(type, 1, e.Broadcast(1, position))) : y;
}

absl::StatusOr<Outputs> ChannelOutputs(const Operands& operands) {
  if (operands.Rank(0) < 2) return operands.Error("takes two dimensions or more");
  if (operands.HasAttribute("num_groups") &&
      !Quotient(operands.ShapeOf(0)[1], operands.Int("num_groups", 1))) {
    return operands.Error("num_groups has to divide the channels");
  }
  if (operands.Int("training_mode", 0) != 0) return operands.Missing("training is not lowered");
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

int InstanceNormElement(ElementEmitter& e, int, const Position& position) {
  const DType type = AccumulateType(e);
  const Region region = RegionAt(e, position, 2, position.size());
  const Moments moments = MomentsOf(e, region, e.ReadAs(type, 0, region.source));
  const int centered = e.Subtract(e.ReadAs(type, 0, position), moments.mean);
  return Scaled(e, e.Multiply(centered, moments.inverse_deviation), {position[1]});
}

int GroupNormElement(ElementEmitter& e, int, const Position& position) {
  const DType type = AccumulateType(e);
  const Size channels = *Quotient(e.ShapeOf(0)[1], e.Int("num_groups", 1));
  const int group = e.Divide(position[1], e.Of(channels));
  Region region = RegionAt(e, position, 2, position.size());
  region.loops.push_back(e.NewLoop(channels));
  region.source[1] = e.Add(e.Multiply(group, e.Of(channels)), region.loops.back().at);
  region.count *= channels;
  const Moments moments = MomentsOf(e, region, e.ReadAs(type, 0, region.source));
  const int centered = e.Subtract(e.ReadAs(type, 0, position), moments.mean);
  // Version 18 scales groups, version 21 channels.
  const bool is_by_channel = e.ShapeOf(1)[0] == e.ShapeOf(0)[1];
  return Scaled(e, e.Multiply(centered, moments.inverse_deviation),
                {is_by_channel ? position[1] : group});
}

int BatchNormElement(ElementEmitter& e, int, const Position& position) {
  const DType type = AccumulateType(e);
  const Position channel = {position[1]};
  const int centered = e.Subtract(e.ReadAs(type, 0, position), e.ReadAs(type, 3, channel));
  return Scaled(e, e.Multiply(centered, InverseDeviation(e, e.ReadAs(type, 4, channel))), channel);
}

int LpNormElement(ElementEmitter& e, int, const Position& position) {
  const size_t axis = NormalizedAxis(e);
  const DType type = AccumulateType(e);
  const Region region = RegionAt(e, position, axis, axis + 1);
  const int other = e.ReadAs(type, 0, region.source);
  const bool is_one = e.Int("p", 2) == 1;
  int norm =
      e.Sum(is_one ? e.Unary(Opcode::kAbsolute, other) : e.Multiply(other, other), region.loops);
  if (!is_one) norm = e.Unary(Opcode::kSquareRoot, norm);
  const int zero = e.Number(type, 0);
  const int x = e.ReadAs(type, 0, position);
  return e.Select(e.Equal(norm, zero), zero, e.Divide(x, norm));
}

// The neighbouring channels' squares.
int LrnElement(ElementEmitter& e, int, const Position& position) {
  const DType type = AccumulateType(e);
  const int64_t size = e.Int("size", 1);
  const Loop loop = e.NewLoop(size);
  Position source = position;
  source[1] = e.Subtract(e.Add(position[1], loop.at), e.Of((size - 1) / 2));
  const int is_inside = e.IsWithin(source[1], e.ShapeOf(0)[1]);
  const int other = e.ReadIf(is_inside, type, 0, source, e.Number(type, 0));
  const int sum = e.Sum(e.Multiply(other, other), {loop});
  const double scale = e.Float("alpha", 1e-4) / static_cast<double>(size);
  const int base =
      e.Add(e.Number(type, e.Float("bias", 1)), e.Multiply(e.Number(type, scale), sum));
  const int power = e.Binary(Opcode::kPower, base, e.Number(type, e.Float("beta", 0.75)));
  return e.Divide(e.ReadAs(type, 0, position), power);
}

constexpr NamedRule kNormalizations[] = {
    {"Softmax", {Infer<AxisOutputs>, Emit<SoftmaxElement>, AxisAlone}},
    {"LogSoftmax", {Infer<AxisOutputs>, Emit<LogSoftmaxElement>, AxisAlone}},
    {"Hardmax", {Infer<AxisOutputs>, Emit<HardmaxElement>, AxisAlone}},
    {"LayerNormalization", {Infer<LayerNormOutputs>, Emit<LayerNormElement>, AxisAndBehind}},
    {"RMSNormalization", {Infer<LayerNormOutputs>, Emit<RmsNormElement>, AxisAndBehind}},
    {"InstanceNormalization",
     {Infer<ChannelOutputs>, Emit<InstanceNormElement>, SpatialDimensions}},
    {"GroupNormalization", {Infer<ChannelOutputs>, Emit<GroupNormElement>, SpatialDimensions}},
    {"BatchNormalization", {Infer<ChannelOutputs>, Emit<BatchNormElement>}},
    {"LpNormalization", {Infer<AxisOutputs>, Emit<LpNormElement>, AxisAlone}},
    {"LRN", {Infer<ChannelOutputs>, Emit<LrnElement>}},
};

}  // namespace

std::span<const NamedRule> NormalizationRules() { return kNormalizations; }

}  // namespace kiln::graph
