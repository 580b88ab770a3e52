// Rotary embeddings: pairs of columns are turned as complex numbers, by angles of their place.
#pragma once

#include <functional>

#include "client/graph/operators/element_emitter.h"

namespace kiln::graph {

struct Rotation {
  size_t cosines = 1;  // inputs
  size_t sines = 2;
  int64_t rotated = 0;  // columns from the first one on; even
  bool is_interleaved = false;
  Position angle;  // in cosines and sines, without the column
};

// `read` gives the element that lies `distance` columns behind the one at `column`. Columns that
// are not rotated stay as they are.
int Rotated(ElementEmitter& e, const Rotation& rotation, DType type, int column,
            const std::function<int(int distance)>& read);

}  // namespace kiln::graph
