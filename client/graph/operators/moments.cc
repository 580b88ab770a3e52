#include "client/graph/operators/moments.h"

#include <numeric>
#include <utility>

namespace kiln::graph {

Region RegionOver(ElementEmitter& e, Position position, const std::vector<size_t>& dimensions) {
  Region region{std::move(position), {}, 1};
  for (const size_t i : dimensions) {
    region.loops.push_back(e.NewLoop(e.ShapeOf(0)[i]));
    region.source[i] = region.loops.back().at;
    region.count *= e.ShapeOf(0)[i];
  }
  return region;
}

Region RegionAt(ElementEmitter& e, Position position, size_t begin, size_t end) {
  std::vector<size_t> dimensions(end - begin);
  std::iota(dimensions.begin(), dimensions.end(), begin);
  return RegionOver(e, std::move(position), dimensions);
}

int MeanOf(ElementEmitter& e, const Region& region, int x) {
  const int count = e.Cast(e.TypeOfValue(x), e.Of(region.count));
  return e.Divide(e.Sum(x, region.loops), count);
}

int InverseDeviation(ElementEmitter& e, int variance) {
  const int epsilon = e.Number(e.TypeOfValue(variance), e.Float("epsilon", 1e-5));
  return e.Unary(Opcode::kReciprocalSquareRoot, e.Add(variance, epsilon));
}

Moments MomentsOf(ElementEmitter& e, const Region& region, int x) {
  const int mean = MeanOf(e, region, x);
  const int difference = e.Subtract(x, mean);
  const int variance = MeanOf(e, region, e.Multiply(difference, difference));
  return {mean, InverseDeviation(e, variance)};
}

}  // namespace kiln::graph
