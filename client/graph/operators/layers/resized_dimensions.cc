#include "client/graph/operators/layers/resized_dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/graph/segment/limits.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::StatusOr<int64_t> Floor(const Operands& operands, double extent) {
  if (!(std::abs(extent) <= static_cast<double>(kElementsMax))) {  // or it is no number
    return operands.Error(fmt::format("{} elements along an axis are too many", extent));
  }
  return static_cast<int64_t>(std::floor(extent));
}

absl::StatusOr<ResizedDimension> ByScale(const Operands& operands, const Size& extent,
                                         double scale) {
  if (!(scale > 0)) return operands.Error("scales have to be positive");
  if (const auto known = extent.Constant()) {
    KILN_ASSIGN_OR_RETURN(const int64_t size, Floor(operands, static_cast<double>(*known) * scale));
    return ResizedDimension{size, scale, -1};
  }
  KILN_ASSIGN_OR_RETURN(const int64_t factor, Floor(operands, scale));
  if (scale == static_cast<double>(factor)) {
    return ResizedDimension{extent * Size(factor), scale, -1};
  }
  return operands.Missing(
      fmt::format("scale {} of {}, which is known at run time", scale, operands.Text({extent})));
}

// `stretch`, or one scale for all axes.
absl::StatusOr<std::vector<ResizedDimension>> BySizes(const Operands& operands,
                                                      const std::vector<size_t>& axes,
                                                      const std::vector<int64_t>& sizes) {
  std::vector<ResizedDimension> dimensions;
  std::vector<double> scales;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto known = operands.ShapeOf(0)[axes[i]].Constant();
    if (!known || *known < 1) return operands.Missing("sizes of an extent known at run time");
    scales.push_back(static_cast<double>(sizes[i]) / static_cast<double>(*known));
    dimensions.push_back({sizes[i], scales.back(), -1});
  }
  const std::string policy = operands.String("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || scales.empty()) return dimensions;
  const auto [least, most] = std::ranges::minmax(scales);
  const double scale = policy == "not_larger" ? least : most;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto extent = static_cast<double>(*operands.ShapeOf(0)[axes[i]].Constant());
    KILN_ASSIGN_OR_RETURN(const int64_t size, Floor(operands, scale * extent + 0.5));
    dimensions[i] = {size, scale, -1};
  }
  return dimensions;
}

}  // namespace

absl::StatusOr<ResizedShape> ResizedShapeOf(const Operands& operands, size_t scales_input) {
  ResizedShape resized;
  for (const Size& extent : operands.ShapeOf(0)) resized.dimensions.push_back({extent, 1, -1});
  std::vector<size_t> axes;
  if (const auto given = operands.Ints("axes"); given && !given->empty()) {
    for (const int64_t number : *given) {
      KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(number, operands.Rank(0)));
      axes.push_back(axis);
    }
  } else {
    for (size_t i = 0; i < resized.dimensions.size(); ++i) axes.push_back(i);
  }
  resized.axes = axes.size();
  KILN_ASSIGN_OR_RETURN(const auto scales, operands.NumbersOrInput("scales", scales_input));
  if (scales && scales->size() == axes.size() && !axes.empty()) {
    for (size_t i = 0; i < axes.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(resized.dimensions[axes[i]],
                            ByScale(operands, operands.ShapeOf(0)[axes[i]], (*scales)[i]));
      resized.dimensions[axes[i]].roi = static_cast<int>(i);
    }
    return resized;
  }
  KILN_ASSIGN_OR_RETURN(const auto sizes, operands.IntsOrInput("sizes", scales_input + 1));
  if (!sizes || sizes->size() != axes.size()) {
    return operands.Error("needs a scale or a size for each axis");
  }
  KILN_ASSIGN_OR_RETURN(const auto dimensions, BySizes(operands, axes, *sizes));
  for (size_t i = 0; i < axes.size(); ++i) {
    resized.dimensions[axes[i]] = dimensions[i];
    resized.dimensions[axes[i]].roi = static_cast<int>(i);
  }
  return resized;
}

}  // namespace kiln::graph
