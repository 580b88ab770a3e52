#include "client/graph/operators/views.h"

#include <map>
#include <string_view>

#include "client/graph/operators/op_table.h"
#include "client/graph/operators/reshaping.h"

namespace kiln::graph {
namespace {

using ViewRule = std::optional<View> (*)(const Operands& operands, size_t output,
                                         const View& input);

std::optional<View> ViewOfReshape(const Operands& operands, size_t output, const View& input) {
  const Shape& from = operands.ShapeOf(0);
  const Shape& to = operands.Output(output).shape;
  View view{input.offset, std::vector<Size>(to.size(), 0)};
  for (const ReshapeGroup& group : GroupsOf(from, to)) {
    for (size_t i = group.from_begin; i + 1 < group.from_end; ++i) {
      if (input.strides[i] != input.strides[i + 1] * from[i + 1]) return std::nullopt;
    }
    Size stride = input.strides[group.from_end - 1];
    for (size_t i = group.to_end; i-- > group.to_begin;) {
      view.strides[i] = stride;
      stride *= to[i];
    }
  }
  return view;
}

std::optional<View> ViewOfTranspose(const Operands& operands, size_t, const View& input) {
  const auto permutation = PermutationOf(operands);
  if (!permutation.ok()) return std::nullopt;
  View view{input.offset, {}};
  for (const size_t axis : *permutation) view.strides.push_back(input.strides[axis]);
  return view;
}

std::optional<View> ViewOfSlice(const Operands& operands, size_t, const View& input) {
  const auto ranges = RangesOfSlice(operands);
  if (!ranges.ok()) return std::nullopt;
  View view{input.offset, {}};
  for (size_t i = 0; i < ranges->size(); ++i) {
    view.offset += (*ranges)[i].start * input.strides[i];
    view.strides.push_back(input.strides[i] * Size((*ranges)[i].step));
  }
  return view;
}

std::optional<View> ViewOfSplit(const Operands& operands, size_t output, const View& input) {
  const auto plan = PlanOfSplit(operands);
  if (!plan.ok()) return std::nullopt;
  View view = input;
  view.offset += plan->begins[output] * input.strides[plan->axis];
  return view;
}

std::optional<View> ViewOfUnstack(const Operands& operands, size_t output, const View& input) {
  const auto axis = operands.Axis(operands.Int("axis", 0), operands.Rank(0));
  if (!axis.ok()) return std::nullopt;
  View view = input;
  view.offset += Size(static_cast<int64_t>(output)) * input.strides[*axis];
  view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(*axis));
  return view;
}

std::optional<View> ViewOfExpand(const Operands& operands, size_t output, const View& input) {
  const Shape& from = operands.ShapeOf(0);
  const Shape& to = operands.Output(output).shape;
  View view{input.offset, std::vector<Size>(to.size(), 0)};
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != Size(1)) view.strides[to.size() - from.size() + i] = input.strides[i];
  }
  return view;
}

std::optional<View> ViewOfIdentity(const Operands&, size_t, const View& input) { return input; }

const std::map<std::string_view, ViewRule> kViewRules = {
    {"Reshape", ViewOfReshape},   {"Flatten", ViewOfReshape}, {"Squeeze", ViewOfReshape},
    {"Unsqueeze", ViewOfReshape}, {"Expand", ViewOfExpand},   {"Transpose", ViewOfTranspose},
    {"Slice", ViewOfSlice},       {"Split", ViewOfSplit},     {"Unstack", ViewOfUnstack},
    {"Identity", ViewOfIdentity},
};

}  // namespace

std::optional<View> ViewOf(const Segment& segment, const Operation& operation, size_t output,
                           const View& input) {
  const Operator* known = FindOperator(operation.name);
  if (known == nullptr) return std::nullopt;
  const auto rule = kViewRules.find(known->name);
  if (rule == kViewRules.end()) return std::nullopt;
  return rule->second(Operands(segment, operation), output, input);
}

}  // namespace kiln::graph
