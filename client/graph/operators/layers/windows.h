// Windows that slide over the spatial dimensions of [N, C, D...]: convolutions and pools.
#pragma once

#include <vector>

#include "client/graph/operators/element_emitter.h"

namespace kiln::graph {

// One number for each spatial dimension.
struct Window {
  std::vector<Size> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> before;  // padding
  std::vector<int64_t> behind;
  bool is_ceiling = false;  // the last window may reach beyond the padding
};

// From the attributes; the kernel's sizes are `kernel` where the attribute kernel_shape is absent.
// auto_pad is resolved, where the sizes that it needs are known.
absl::StatusOr<Window> WindowOf(const Operands& operands, const Shape& kernel);
// A window over `spatial` dimensions. Reads the attributes that WindowOf reads, but for auto_pad
// and ceil_mode.
absl::StatusOr<Window> WindowOver(const Operands& operands, const Shape& kernel, size_t spatial);
// Positions of the window over the spatial dimensions of the first input.
absl::StatusOr<Shape> PositionsOf(const Operands& operands, const Window& window);
// Where the window's element at `offsets` lies for the position `at` of the output, and whether
// that is within the input.
struct WindowPlace {
  Position source;  // spatial dimensions alone
  int is_inside = 0;
};
WindowPlace PlaceOf(ElementEmitter& e, const Window& window, const Position& at,
                    const std::vector<Loop>& offsets);
// The other way round: which window has the place `at` of the input at `offsets`, and whether one
// has. There are `positions` windows.
WindowPlace WindowAt(ElementEmitter& e, const Window& window, const Position& at,
                     const std::vector<Loop>& offsets, const Shape& positions);
std::vector<Loop> LoopsOf(ElementEmitter& e, const Window& window);

}  // namespace kiln::graph
