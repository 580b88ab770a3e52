#include "client/graph/operators/layers/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/base/status.h"

namespace kiln::graph {
namespace {

std::vector<int64_t> NumbersOr(const Operands& operands, std::string_view name, size_t count,
                               int64_t otherwise) {
  auto numbers = operands.Ints(name).value_or(std::vector<int64_t>());
  if (numbers.empty()) numbers.assign(count, otherwise);
  return numbers;
}

// SAME: as many positions as ceil(extent / stride).
absl::Status PadToSame(const Operands& operands, bool is_upper, Window& window) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const auto extent = operands.ShapeOf(0)[i + 2].Constant();
    const auto kernel = window.kernel[i].Constant();
    const int64_t stride = window.strides[i];
    // With stride 1 the padding is the kernel's alone.
    if (!kernel || (!extent && stride != 1)) {
      return operands.Missing("auto_pad needs sizes that are known when the kernel is planned");
    }
    const int64_t size = extent.value_or(*kernel);
    const int64_t positions = (size + stride - 1) / stride;
    const int64_t span = (*kernel - 1) * window.dilations[i] + 1;
    const int64_t padding = std::max<int64_t>(0, (positions - 1) * stride + span - size);
    window.before[i] = is_upper ? padding / 2 : padding - padding / 2;
    window.behind[i] = padding - window.before[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Window> WindowOver(const Operands& operands, const Shape& kernel, size_t spatial) {
  Window window;
  window.kernel = kernel;
  if (const auto given = operands.Ints("kernel_shape"); given && !given->empty()) {
    window.kernel.assign(given->begin(), given->end());
  }
  window.strides = NumbersOr(operands, "strides", spatial, 1);
  window.dilations = NumbersOr(operands, "dilations", spatial, 1);
  const std::vector<int64_t> pads = NumbersOr(operands, "pads", 2 * spatial, 0);
  if (window.kernel.size() != spatial || window.strides.size() != spatial ||
      window.dilations.size() != spatial || pads.size() != 2 * spatial) {
    return operands.Error(
        fmt::format("kernel_shape, strides, dilations and pads need {} dimensions", spatial));
  }
  if (std::ranges::min(window.strides) < 1 || std::ranges::min(window.dilations) < 1) {
    return operands.Error("strides and dilations have to be positive");
  }
  window.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  window.behind.assign(pads.begin() + static_cast<std::ptrdiff_t>(spatial), pads.end());
  return window;
}

absl::StatusOr<Window> WindowOf(const Operands& operands, const Shape& kernel) {
  if (operands.Rank(0) < 3) return operands.Error("takes [N, C, D...]");
  const auto spatial = static_cast<size_t>(operands.Rank(0)) - 2;
  KILN_ASSIGN_OR_RETURN(Window window, WindowOver(operands, kernel, spatial));
  const std::string mode = operands.String("auto_pad", "NOTSET");
  window.is_ceiling = mode == "NOTSET" && operands.Int("ceil_mode", 0) != 0;
  if (mode == "VALID") window.before = window.behind = std::vector<int64_t>(spatial, 0);
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    KILN_RETURN_IF_ERROR(PadToSame(operands, mode == "SAME_UPPER", window));
  }
  return window;
}

absl::StatusOr<Shape> PositionsOf(const Operands& operands, const Window& window) {
  Shape positions;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const Size& extent = operands.ShapeOf(0)[i + 2];
    const int64_t stride = window.strides[i];
    const Size span = (window.kernel[i] - Size(1)) * Size(window.dilations[i]) + Size(1);
    const Size room = extent + Size(window.before[i]) + Size(window.behind[i]) - span;
    auto last = FloorQuotient(room + Size(window.is_ceiling ? stride - 1 : 0), stride);
    if (!last) {
      return operands.Missing(fmt::format("stride {} over {}, which is known at run time", stride,
                                          operands.Text({extent})));
    }
    // A window that begins in the padding behind is left out.
    if (window.is_ceiling &&
        operands.IsAtMost(extent + Size(window.before[i]), *last * Size(stride))) {
      *last += Size(-1);
    }
    positions.push_back(*last + Size(1));
    if (operands.IsAtMost(positions.back(), -1)) {
      return operands.Error("the window is larger than the input and its padding");
    }
  }
  return positions;
}

std::vector<Loop> LoopsOf(ElementEmitter& e, const Window& window) {
  std::vector<Loop> loops;
  for (const Size& extent : window.kernel) loops.push_back(e.NewLoop(extent));
  return loops;
}

WindowPlace PlaceOf(ElementEmitter& e, const Window& window, const Position& at,
                    const std::vector<Loop>& offsets) {
  WindowPlace place{{}, e.make().Integer(DType::kBool, 1)};
  for (size_t i = 0; i < at.size(); ++i) {
    const int begin =
        e.Subtract(e.Multiply(at[i], e.Of(window.strides[i])), e.Of(window.before[i]));
    const int offset = e.Multiply(offsets[i].at, e.Of(window.dilations[i]));
    place.source.push_back(e.Add(begin, offset));
    if (window.before[i] == 0 && window.behind[i] == 0 && !window.is_ceiling) continue;
    const int is_inside = e.IsWithin(place.source[i], e.ShapeOf(0)[i + 2]);
    place.is_inside = e.And(place.is_inside, is_inside);
  }
  return place;
}

WindowPlace WindowAt(ElementEmitter& e, const Window& window, const Position& at,
                     const std::vector<Loop>& offsets, const Shape& positions) {
  WindowPlace place{{}, e.make().Integer(DType::kBool, 1)};
  for (size_t i = 0; i < at.size(); ++i) {
    const int stride = e.Of(window.strides[i]);
    const int offset = e.Multiply(offsets[i].at, e.Of(window.dilations[i]));
    const int begin = e.Subtract(e.Add(at[i], e.Of(window.before[i])), offset);
    const int number = e.Binary(Opcode::kFloorDivide, begin, stride);
    const int is_whole = e.Equal(e.Binary(Opcode::kFloorRemainder, begin, stride), e.Of(0));
    const int is_one = e.And(is_whole, e.IsWithin(number, positions[i]));
    place.is_inside = e.And(place.is_inside, is_one);
    place.source.push_back(number);
  }
  return place;
}

}  // namespace kiln::graph
