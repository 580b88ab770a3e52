#include "client/graph/operators/layers/rotation.h"

namespace kiln::graph {

int Rotated(ElementEmitter& e, const Rotation& rotation, DType type, int column,
            const std::function<int(int distance)>& read) {
  const int half = e.Of(rotation.rotated / 2);
  const int parity = e.Remainder(column, e.Of(2));
  const int is_real = rotation.is_interleaved ? e.Equal(parity, e.Of(0)) : e.Less(column, half);
  const int pair = rotation.is_interleaved ? e.Divide(column, e.Of(2)) : e.Remainder(column, half);
  const int distance = rotation.is_interleaved ? e.Of(1) : half;
  int is_rotated = e.Less(column, e.Of(rotation.rotated));
  // Places come from data then; those that have no angle are left out.
  if (rotation.angle.size() == 1) {
    const int is_known = e.IsWithin(rotation.angle[0], e.ShapeOf(rotation.cosines)[0]);
    is_rotated = e.And(is_rotated, is_known);
  }
  Position angle = rotation.angle;
  angle.push_back(pair);
  const int zero = e.Number(type, 0);
  const int x = read(e.Of(0));
  const int cosine = e.ReadIf(is_rotated, type, rotation.cosines, angle, zero);
  const int sine = e.ReadIf(is_rotated, type, rotation.sines, angle, zero);
  const int backward = e.Subtract(e.Of(0), distance);
  e.BeginGuard(is_rotated);
  const int other = read(e.Select(is_real, distance, backward));
  e.EndGuard();
  const int turned = e.Multiply(other, sine);
  const int kept = e.Multiply(x, cosine);
  const int difference = e.Subtract(kept, turned);
  const int sum = e.Add(kept, turned);
  return e.Select(is_rotated, e.Select(is_real, difference, sum), x);
}

}  // namespace kiln::graph
