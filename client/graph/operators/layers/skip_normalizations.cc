// Normalizations of a sum: the input, what skipped a layer, and a bias.

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/moments.h"
#include "client/graph/operators/rules.h"

namespace kiln::graph {
namespace {

constexpr size_t kScaleInput = 2;
// The output that is the sum; what is before it are the result, the mean and 1 / deviation.
constexpr int kSumOutput = 3;

// SkipRMSNormalization has no shift in front of the bias.
size_t BiasInput(bool is_rms) { return is_rms ? 3 : 4; }

template <bool kIsRms>
absl::StatusOr<Outputs> SkipOutputs(const Operands& operands) {
  const Shape& shape = operands.ShapeOf(0);
  if (shape.empty()) return operands.Error("takes no scalars");
  for (size_t i = 1; i < operands.inputs(); ++i) {
    if (!operands.Has(i) || BroadcastShape(shape, operands.ShapeOf(i)) == shape) continue;
    return operands.Error("the other inputs have to fit the first one's shape");
  }
  Shape reduced = shape;
  reduced.back() = 1;
  const DType type = FactsOf(operands.TypeOf(0)).accumulate;
  return Outputs{
      {operands.TypeOf(0), shape}, {type, reduced}, {type, reduced}, {operands.TypeOf(0), shape}};
}

int SumAt(ElementEmitter& e, size_t bias, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  int sum = e.ReadAs(type, 0, position);
  sum = e.Add(sum, e.ReadAs(type, 1, e.Broadcast(1, position)));
  return e.Has(bias) ? e.Add(sum, e.ReadAs(type, bias, e.Broadcast(bias, position))) : sum;
}

template <bool kIsRms>
int SkipElement(ElementEmitter& e, int output, const Position& position) {
  const size_t bias = BiasInput(kIsRms);
  if (output == kSumOutput) return SumAt(e, bias, position);
  const Region region = RegionAt(e, position, position.size() - 1, position.size());
  const int other = SumAt(e, bias, region.source);
  Moments moments;
  if (kIsRms) {
    moments.mean = e.Number(e.TypeOfValue(other), 0);
    moments.inverse_deviation = InverseDeviation(e, MeanOf(e, region, e.Multiply(other, other)));
  } else {
    moments = MomentsOf(e, region, other);
  }
  if (output == 1) return moments.mean;
  if (output == 2) return moments.inverse_deviation;
  int x = SumAt(e, bias, position);
  if (!kIsRms) x = e.Subtract(x, moments.mean);
  x = e.Multiply(x, moments.inverse_deviation);
  const DType type = e.TypeOfValue(x);
  x = e.Multiply(x, e.ReadAs(type, kScaleInput, e.Broadcast(kScaleInput, position)));
  const size_t shift = kScaleInput + 1;
  if (kIsRms || !e.Has(shift)) return x;
  return e.Add(x, e.ReadAs(type, shift, e.Broadcast(shift, position)));
}

std::vector<int> LastDimension(const Segment& segment, const Operation& operation) {
  return {static_cast<int>(Operands(segment, operation).Rank(0)) - 1};
}

constexpr NamedRule kSkipNormalizations[] = {
    {"SkipLayerNormalization",
     {Infer<SkipOutputs<false>>, Emit<SkipElement<false>>, LastDimension}},
    {"SkipRMSNormalization", {Infer<SkipOutputs<true>>, Emit<SkipElement<true>>, LastDimension}},
};

}  // namespace

std::span<const NamedRule> SkipNormalizationRules() { return kSkipNormalizations; }

}  // namespace kiln::graph
