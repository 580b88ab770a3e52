// Pad and CenterCropPad: elements beside the input, or fewer of it.
#include <fmt/format.h>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// Elements before and behind each dimension.
struct Padding {
  std::vector<int64_t> before;
  std::vector<int64_t> behind;
};

absl::StatusOr<Padding> PaddingOf(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto pads, operands.IntsOrInput("pads", 1));
  KILN_ASSIGN_OR_RETURN(const auto axes, operands.IntsOrInput("axes", 3));
  const auto rank = static_cast<size_t>(operands.Rank(0));
  const size_t padded = axes ? axes->size() : rank;
  if (!pads || pads->size() != 2 * padded) {
    return operands.Error("pads need two numbers for each dimension");
  }
  Padding padding{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i < padded; ++i) {
    KILN_ASSIGN_OR_RETURN(
        const auto axis,
        operands.Axis(axes ? (*axes)[i] : static_cast<int64_t>(i), operands.Rank(0)));
    padding.before[axis] = (*pads)[i];
    padding.behind[axis] = (*pads)[padded + i];
  }
  return padding;
}

Shape PaddedShape(const Operands& operands, const Padding& padding) {
  Shape shape = operands.ShapeOf(0);
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] += Size(padding.before[i]) + Size(padding.behind[i]);
  }
  return shape;
}

absl::StatusOr<Outputs> PadOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto padding, PaddingOf(operands));
  const std::string mode = operands.String("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return operands.Error(fmt::format("mode \"{}\" is unknown", mode));
  }
  for (size_t i = 0; mode != "constant" && i < padding.before.size(); ++i) {
    const Size& extent = operands.ShapeOf(0)[i];
    const bool is_padded = padding.before[i] != 0 || padding.behind[i] != 0;
    if (is_padded && !operands.IsAtMost(1, extent)) return operands.MayBeEmpty(extent);
  }
  return Outputs{{operands.TypeOf(0), PaddedShape(operands, padding)}};
}

// Where a place outside of 0 … extent - 1 takes its element from.
int PlaceInside(const ElementEmitter& e, const std::string& mode, int at, const Size& extent) {
  const int last = e.Of(extent - Size(1));
  if (mode == "edge") return e.Minimum(e.Maximum(at, e.Of(0)), last);
  if (mode == "wrap") return e.Binary(Opcode::kFloorRemainder, at, e.Of(extent));
  if (extent == Size(1)) return e.Of(0);
  // A period of 2 * (extent - 1): there and back. One element has a period, too.
  int period = e.Of((extent - Size(1)) * Size(2));
  if (!e.IsAtMost(2, extent)) period = e.Maximum(period, e.Of(1));
  const int phase = e.Binary(Opcode::kFloorRemainder, at, period);
  return e.Minimum(phase, e.Subtract(period, phase));
}

// The input's element, or `fill` where the position lies in the padding.
int PaddedElement(ElementEmitter& e, const Padding& padding, const Position& position, int fill) {
  int is_inside = e.make().Integer(DType::kBool, 1);
  Position source = position;
  for (size_t i = 0; i < position.size(); ++i) {
    if (padding.before[i] == 0 && padding.behind[i] == 0) continue;
    source[i] = e.Subtract(position[i], e.Of(padding.before[i]));
    is_inside = e.And(is_inside, e.IsWithin(source[i], e.ShapeOf(0)[i]));
  }
  return e.ReadIf(is_inside, e.TypeOf(0), 0, source, fill);
}

absl::StatusOr<int> PadElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto padding, PaddingOf(e));
  const std::string mode = e.String("mode", "constant");
  if (mode == "constant") {
    const DType type = e.TypeOf(0);
    const int fill =
        e.Has(2) ? e.ReadAs(type, 2, Position(static_cast<size_t>(e.Rank(2)), e.Of(0)))
                 : e.make().Cast(type, e.Number(FactsOf(type).compute, e.Float("value", 0)));
    return PaddedElement(e, padding, position, fill);
  }
  Position source = position;
  for (size_t i = 0; i < position.size(); ++i) {
    if (padding.before[i] == 0 && padding.behind[i] == 0) continue;
    const int place = e.Subtract(position[i], e.Of(padding.before[i]));
    source[i] = PlaceInside(e, mode, place, e.ShapeOf(0)[i]);
  }
  return e.Read(0, source);
}

// Half of what is missing stands before the input. Negative where the input is cropped.
absl::StatusOr<Padding> CenteringOf(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto wanted, operands.IntsOrInput("shape", 1));
  const auto axes = operands.Ints("axes");
  const auto rank = static_cast<size_t>(operands.Rank(0));
  if (!wanted || wanted->size() != (axes ? axes->size() : rank)) {
    return operands.Error("needs a size for each axis");
  }
  Padding padding{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i < wanted->size(); ++i) {
    KILN_ASSIGN_OR_RETURN(
        const auto axis,
        operands.Axis(axes ? (*axes)[i] : static_cast<int64_t>(i), operands.Rank(0)));
    const auto extent = operands.ShapeOf(0)[axis].Constant();
    if (!extent) return operands.Missing("takes sizes that are known when the kernel is planned");
    const int64_t missing = (*wanted)[i] - *extent;
    padding.before[axis] = missing / 2;
    padding.behind[axis] = missing - missing / 2;
  }
  return padding;
}

absl::StatusOr<Outputs> CenterOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto padding, CenteringOf(operands));
  return Outputs{{operands.TypeOf(0), PaddedShape(operands, padding)}};
}

absl::StatusOr<int> CenterElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto padding, CenteringOf(e));
  return PaddedElement(e, padding, position, e.make().Integer(e.TypeOf(0), 0));
}

constexpr NamedRule kPaddings[] = {
    {"Pad", {Infer<PadOutputs>, Emit<PadElement>}},
    {"CenterCropPad", {Infer<CenterOutputs>, Emit<CenterElement>}},
};

}  // namespace

std::span<const NamedRule> PaddingRules() { return kPaddings; }

}  // namespace kiln::graph
