#include "client/graph/operators/layers/interpolation.h"

namespace kiln::graph {
namespace {

int SumOfTaps(ElementEmitter& e, DType type, Position& source, const std::vector<size_t>& axes,
              const std::vector<std::vector<Tap>>& taps, size_t depth) {
  if (depth == axes.size()) return e.ReadAs(type, 0, source);
  int sum = e.Number(type, 0);
  for (const Tap& tap : taps[depth]) {
    source[axes[depth]] = tap.index;
    e.BeginGuard(tap.is_inside);
    const int element = SumOfTaps(e, type, source, axes, taps, depth + 1);
    e.EndGuard();
    const int term = e.Multiply(e.Cast(type, tap.weight), element);
    sum = e.Add(sum, term);
  }
  return sum;
}

}  // namespace

std::vector<int> LinearWeights(ElementEmitter& e, int rest) {
  return {e.Subtract(e.Number(DType::kF32, 1), rest), rest};
}

int LinearAt(ElementEmitter& e, int distance) {
  const int height = e.Subtract(e.Number(DType::kF32, 1), e.Unary(Opcode::kAbsolute, distance));
  return e.Maximum(height, e.Number(DType::kF32, 0));
}

// ((a + 2) |x| - (a + 3)) x^2 + 1 up to 1, a (((|x| - 5) |x| + 8) |x| - 4) up to 2, 0 beyond.
int CubicAt(ElementEmitter& e, int distance, double a) {
  const auto number = [&](double x) { return e.Number(DType::kF32, x); };
  const int x = e.Unary(Opcode::kAbsolute, distance);
  const int slope = e.Subtract(e.Multiply(number(a + 2), x), number(a + 3));
  const int near = e.Add(e.Multiply(e.Multiply(slope, x), x), number(1));
  const int square = e.Add(e.Multiply(e.Subtract(x, number(5)), x), number(8));
  const int far = e.Multiply(number(a), e.Subtract(e.Multiply(square, x), number(4)));
  const int outer = e.Select(e.Less(x, number(2)), far, number(0));
  return e.Select(e.LessOrEqual(x, number(1)), near, outer);
}

std::vector<int> CubicWeights(ElementEmitter& e, int rest, double a) {
  std::vector<int> weights;
  for (const double place : {-1, 0, 1, 2}) {
    weights.push_back(CubicAt(e, e.Subtract(e.Number(DType::kF32, place), rest), a));
  }
  return weights;
}

int Interpolated(ElementEmitter& e, Position source, const std::vector<size_t>& axes,
                 const std::vector<std::vector<Tap>>& taps) {
  const DType type = e.TypeOf(0) == DType::kF64 ? DType::kF64 : DType::kF32;
  return SumOfTaps(e, type, source, axes, taps, 0);
}

}  // namespace kiln::graph
