#include "client/graph/operators/reshaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "client/graph/segment/shape.h"
#include "storage/base/status.h"

namespace kiln::graph {

std::vector<ReshapeGroup> GroupsOf(const Shape& from, const Shape& to) {
  std::vector<ReshapeGroup> groups;
  size_t i = 0;
  size_t j = 0;
  while (true) {
    while (i < from.size() && from[i] == Size(1)) ++i;
    while (j < to.size() && to[j] == Size(1)) ++j;
    if (i == from.size() || j == to.size()) break;
    ReshapeGroup group{i, i + 1, j, j + 1};
    Size one = from[i];
    Size other = to[j];
    while (one != other && (group.from_end < from.size() || group.to_end < to.size())) {
      const bool has_from = group.from_end < from.size();
      const bool has_to = group.to_end < to.size();
      const bool is_multiple = Quotient(other, one).has_value();
      if (has_from && (is_multiple || !has_to)) {
        one *= from[group.from_end++];
      } else if (has_to && (!is_multiple || !has_from)) {
        other *= to[group.to_end++];
        // Neither divides the other: both grow, so that the group ends at the end at the latest.
        if (one != other && has_from && !Quotient(one, other)) one *= from[group.from_end++];
      }
    }
    groups.push_back(group);
    i = group.from_end;
    j = group.to_end;
  }
  return groups;
}

namespace {

// `size` within [low, high], where the symbols' limits tell which it is.
std::optional<Size> Clamped(const Operands& operands, const Size& size, const Size& low,
                            const Size& high) {
  if (operands.IsAtMost(size, low)) return low;
  if (operands.IsAtMost(high, size)) return high;
  if (operands.IsAtMost(low, size) && operands.IsAtMost(size, high)) return size;
  return std::nullopt;
}

absl::StatusOr<SliceRange> RangeOf(const Operands& operands, const Size& extent, int64_t start,
                                   int64_t end, int64_t step) {
  if (step == 0) return operands.Error("steps may not be 0");
  const Size low = step > 0 ? 0 : -1;
  const Size high = step > 0 ? extent : extent - Size(1);
  const auto resolved = [&](int64_t at, const Size& least) {
    return Clamped(operands, at < 0 ? extent + Size(at) : Size(at), least, high);
  };
  const auto first = resolved(start, 0);
  const auto last = resolved(end, low);
  if (!first || !last) {
    return operands.Missing(
        fmt::format("whether {} to {} is within a dimension depends on its size at run time; give "
                    "the symbol limits that tell",
                    start, end));
  }
  const Size span = step > 0 ? *last - *first : *first - *last;
  if (operands.IsAtMost(span, 0)) return SliceRange{*first, 0, step};
  const int64_t stride = std::abs(step);
  const auto length = FloorQuotient(span + Size(stride - 1), stride);
  if (!length) {
    return operands.Missing(fmt::format("step {} over a size that is known at run time", step));
  }
  return SliceRange{*first, *length, step};
}

}  // namespace

absl::StatusOr<std::vector<SliceRange>> RangesOfSlice(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto starts, operands.IntsOrInput("starts", 1));
  KILN_ASSIGN_OR_RETURN(const auto ends, operands.IntsOrInput("ends", 2));
  KILN_ASSIGN_OR_RETURN(const auto axes, operands.IntsOrInput("axes", 3));
  KILN_ASSIGN_OR_RETURN(const auto steps, operands.IntsOrInput("steps", 4));
  if (!starts || !ends || starts->size() != ends->size() ||
      (axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size())) {
    return operands.Error("starts, ends, axes and steps need the same number of elements");
  }
  std::vector<SliceRange> ranges;
  for (const Size& extent : operands.ShapeOf(0)) ranges.push_back({0, extent, 1});
  for (size_t i = 0; i < starts->size(); ++i) {
    KILN_ASSIGN_OR_RETURN(
        const auto axis,
        operands.Axis(axes ? (*axes)[i] : static_cast<int64_t>(i), operands.Rank(0)));
    KILN_ASSIGN_OR_RETURN(ranges[axis], RangeOf(operands, operands.ShapeOf(0)[axis], (*starts)[i],
                                                (*ends)[i], steps ? (*steps)[i] : 1));
  }
  return ranges;
}

absl::StatusOr<SplitPlan> PlanOfSplit(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(operands.Int("axis", 0), operands.Rank(0)));
  KILN_ASSIGN_OR_RETURN(const auto sizes, operands.IntsOrInput("split", 1));
  SplitPlan plan{axis, {0}};
  const Size& extent = operands.ShapeOf(0)[axis];
  if (sizes) {
    for (const int64_t size : *sizes) plan.begins.push_back(plan.begins.back() + Size(size));
    if (plan.begins.back() != extent) {
      return operands.Error("the parts do not add up to the dimension");
    }
    return plan;
  }
  const auto count = operands.Int("num_outputs", static_cast<int64_t>(operands.outputs()));
  if (count < 1) return operands.Error("num_outputs has to be positive");
  // Parts of one size, the last one smaller.
  auto part = Quotient(extent, count);
  if (!part && extent.Constant()) part = Size((*extent.Constant() + count - 1) / count);
  if (!part) return operands.Missing("the parts have to be known when the kernel is planned");
  for (int64_t i = 1; i < count; ++i) plan.begins.push_back(plan.begins.back() + *part);
  plan.begins.push_back(extent);
  return plan;
}

absl::StatusOr<std::vector<size_t>> PermutationOf(const Operands& operands) {
  const auto rank = static_cast<size_t>(operands.Rank(0));
  std::vector<size_t> permutation(rank);
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  const auto given = operands.Ints("perm");
  if (!given) return permutation;
  std::vector<bool> is_used(rank, false);
  if (given->size() != rank) return operands.Error("perm needs one number for each dimension");
  for (size_t i = 0; i < rank; ++i) {
    KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis((*given)[i], operands.Rank(0)));
    if (is_used[axis]) return operands.Error("perm names a dimension twice");
    is_used[axis] = true;
    permutation[i] = axis;
  }
  return permutation;
}

absl::StatusOr<Shape> ReshapedShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto wanted, operands.IntsOrInput("shape", 1));
  if (!wanted) return operands.Error("a shape is missing");
  const Shape& from = operands.ShapeOf(0);
  Shape to;
  std::optional<size_t> open;
  for (size_t i = 0; i < wanted->size(); ++i) {
    const int64_t extent = (*wanted)[i];
    if (extent < -1 || (extent == -1 && open)) {
      return operands.Error("the shape has several unknown sizes");
    }
    if (extent == -1) open = i;
    const bool is_copied = extent == 0 && operands.Int("allowzero", 0) == 0;
    if (is_copied && i >= from.size()) return operands.Error("0 copies a size that is not there");
    to.push_back(is_copied ? from[i] : Size(extent == -1 ? 1 : extent));
  }
  const Size elements = ElementsOf(from);
  if (open) {
    // A symbolic factor of both sides cancels out, whatever it is.
    Size above = 1;
    Shape below = to;
    for (const Size& extent : from) {
      const auto same = std::ranges::find(below, extent);
      if (same != below.end() && !extent.Constant()) {
        below.erase(same);
      } else {
        above *= extent;
      }
    }
    const auto rest = Quotient(above, ElementsOf(below));
    if (!rest) {
      return operands.Error(fmt::format("{} does not fit the wanted shape", operands.Text(from)));
    }
    to[*open] = *rest;
  }
  if (ElementsOf(to) != elements) {
    return operands.Error(fmt::format("{} and {} differ in their number of elements",
                                      operands.Text(from), operands.Text(to)));
  }
  return to;
}

absl::StatusOr<Shape> FlattenedShape(const Operands& operands) {
  const int64_t rank = operands.Rank(0);
  int64_t axis = operands.Int("axis", 1);
  if (axis < -rank || axis > rank) return operands.Error("axis is out of range");
  if (axis < 0) axis += rank;
  const Shape& from = operands.ShapeOf(0);
  return Shape{ElementsOf({from.begin(), from.begin() + axis}),
               ElementsOf({from.begin() + axis, from.end()})};
}

absl::StatusOr<Shape> SqueezedShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axes, operands.IntsOrInput("axes", 1));
  const Shape& from = operands.ShapeOf(0);
  std::vector<bool> goes(from.size(), false);
  for (size_t i = 0; i < from.size() && !axes; ++i) goes[i] = from[i] == Size(1);
  for (const int64_t number : axes.value_or(std::vector<int64_t>())) {
    KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(number, operands.Rank(0)));
    if (from[axis] != Size(1)) {
      return operands.Error(fmt::format("dimension {} of {} is not 1", axis, operands.Text(from)));
    }
    goes[axis] = true;
  }
  Shape to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!goes[i]) to.push_back(from[i]);
  }
  return to;
}

absl::StatusOr<Shape> UnsqueezedShape(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axes, operands.IntsOrInput("axes", 1));
  if (!axes) return operands.Error("axes are missing");
  const Shape& from = operands.ShapeOf(0);
  const size_t rank = from.size() + axes->size();
  std::vector<bool> is_new(rank, false);
  for (const int64_t number : *axes) {
    KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(number, static_cast<int64_t>(rank)));
    if (is_new[axis]) return operands.Error("axes name a dimension twice");
    is_new[axis] = true;
  }
  Shape to;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) to.push_back(is_new[i] ? Size(1) : from[next++]);
  return to;
}

}  // namespace kiln::graph
