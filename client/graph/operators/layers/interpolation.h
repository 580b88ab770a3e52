// Weighted sums of neighbouring elements: what Resize and GridSample read.
#pragma once

#include <vector>

#include "client/graph/operators/element_emitter.h"

namespace kiln::graph {

// One of the neighbours along a dimension.
struct Tap {
  int index = 0;
  int weight = 0;     // f32
  int is_inside = 0;  // bool; what lies outside is 0
};

// Weights of the neighbours from floor(place) on. `rest` is place - floor(place).
std::vector<int> LinearWeights(ElementEmitter& e, int rest);
// Weights of the four from floor(place) - 1 on, by Keys' cubic convolution with parameter `a`.
std::vector<int> CubicWeights(ElementEmitter& e, int rest, double a);
// Keys' function at a distance, and a triangle: what antialiasing stretches.
int CubicAt(ElementEmitter& e, int distance, double a);
int LinearAt(ElementEmitter& e, int distance);

// The first input at `source`, where the dimensions `axes` take their taps' places.
int Interpolated(ElementEmitter& e, Position source, const std::vector<size_t>& axes,
                 const std::vector<std::vector<Tap>>& taps);

}  // namespace kiln::graph
