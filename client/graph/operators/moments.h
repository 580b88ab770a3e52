// Mean and deviation over some dimensions: what normalizations divide by.
#pragma once

#include <vector>

#include "client/graph/operators/element_emitter.h"

namespace kiln::graph {

// A position of the first input, moved along new loops in some dimensions.
struct Region {
  Position source;
  std::vector<Loop> loops;
  Size count = 1;
};
Region RegionOver(ElementEmitter& e, Position position, const std::vector<size_t>& dimensions);
Region RegionAt(ElementEmitter& e, Position position, size_t begin, size_t end);

// The mean of `x`, an element at the region's source.
int MeanOf(ElementEmitter& e, const Region& region, int x);
// 1 / sqrt(variance + epsilon), by the attribute.
int InverseDeviation(ElementEmitter& e, int variance);

struct Moments {
  int mean = 0;
  int inverse_deviation = 0;
};
// In two passes: no cancellation.
Moments MomentsOf(ElementEmitter& e, const Region& region, int x);

}  // namespace kiln::graph
