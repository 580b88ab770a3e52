// GridSample: elements at places that a grid of numbers gives.
#include <fmt/format.h>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/interpolation.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

enum class Outside : uint8_t { kZeros, kBorder, kReflection };

struct Sampling {
  Outside outside = Outside::kZeros;
  bool is_aligned = false;
  std::string mode;
};

// Version 16 says "bilinear" and "bicubic".
absl::StatusOr<Sampling> SamplingOf(const Operands& operands) {
  Sampling sampling;
  const std::string outside = operands.String("padding_mode", "zeros");
  if (outside == "border") sampling.outside = Outside::kBorder;
  if (outside == "reflection") sampling.outside = Outside::kReflection;
  sampling.is_aligned = operands.Int("align_corners", 0) != 0;
  sampling.mode = operands.String("mode", "linear");
  if (sampling.mode.starts_with("bi")) sampling.mode.erase(0, 2);
  const bool is_mode =
      sampling.mode == "nearest" || sampling.mode == "linear" || sampling.mode == "cubic";
  if (is_mode && (outside == "zeros" || sampling.outside != Outside::kZeros)) return sampling;
  return operands.Error(
      fmt::format("mode \"{}\" or padding_mode \"{}\" is unknown", sampling.mode, outside));
}

// X is [N, C, D...], the grid [N, places..., dimensions].
absl::StatusOr<Outputs> SampleOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto sampling, SamplingOf(operands));
  const Shape& x = operands.ShapeOf(0);
  const Shape& grid = operands.ShapeOf(1);
  if (x.size() < 3 || grid.size() != x.size() || grid[0] != x[0] ||
      grid.back() != Size(operands.Rank(0) - 2)) {
    return operands.Error(
        fmt::format("a grid of {} does not fit {}", operands.Text(grid), operands.Text(x)));
  }
  for (size_t i = 2; sampling.outside != Outside::kZeros && i < x.size(); ++i) {
    if (!operands.IsAtMost(1, x[i])) return operands.MayBeEmpty(x[i]);
  }
  Shape shape = {x[0], x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

int Clamped(ElementEmitter& e, int x, int least, int most) {
  return e.Maximum(least, e.Minimum(x, most));
}

// There and back between the borders, which are the outer corners of elements, or their middles
// where corners are aligned.
int Reflected(ElementEmitter& e, const Sampling& sampling, const Size& extent, int x) {
  const auto number = [&](double each) { return e.Number(DType::kF32, each); };
  if (sampling.is_aligned && extent == Size(1)) return number(0);
  const int least = number(sampling.is_aligned ? 0 : -0.5);
  const int range = e.Cast(DType::kF32, e.Of(sampling.is_aligned ? extent - Size(1) : extent));
  const int period = e.Multiply(range, number(2));
  const int distance = e.Unary(Opcode::kAbsolute, e.Subtract(x, least));
  const int phase = e.Remainder(distance, period);
  return e.Add(least, e.Minimum(phase, e.Subtract(period, phase)));
}

// From -1 ... 1 to 0 ... extent - 1, and back inside.
int PlaceOfNumber(ElementEmitter& e, const Sampling& sampling, const Size& extent, int number) {
  const int one = e.Number(DType::kF32, 1);
  const int half = e.Number(DType::kF32, 0.5);
  const int size = e.Cast(DType::kF32, e.Of(extent));
  const int last = e.Subtract(size, one);
  const int shifted = e.Add(number, one);
  int place = 0;
  if (sampling.is_aligned) {
    place = e.Multiply(e.Multiply(shifted, half), last);
  } else {
    place = e.Multiply(e.Subtract(e.Multiply(shifted, size), one), half);
  }
  if (sampling.mode == "nearest") place = e.Unary(Opcode::kRoundToEven, place);
  if (sampling.outside == Outside::kBorder) {
    place = Clamped(e, place, e.Number(DType::kF32, 0), last);
  }
  if (sampling.outside == Outside::kReflection) place = Reflected(e, sampling, extent, place);
  return place;
}

// `place` is whole.
Tap TapAt(ElementEmitter& e, const Sampling& sampling, const Size& extent, int place, int weight) {
  if (sampling.outside == Outside::kZeros) {
    const int index = e.Cast(DType::kI64, place);
    return {index, weight, e.IsWithin(index, extent)};
  }
  if (sampling.outside == Outside::kReflection) place = Reflected(e, sampling, extent, place);
  const int index = e.Cast(DType::kI64, place);
  return {Clamped(e, index, e.Of(0), e.Of(extent - Size(1))), weight,
          e.make().Integer(DType::kBool, 1)};
}

absl::StatusOr<int> SampleElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto sampling, SamplingOf(e));
  const auto dimensions = static_cast<size_t>(e.Rank(0)) - 2;
  Position at = {position[0]};
  at.insert(at.end(), position.begin() + 2, position.end());
  at.push_back(0);
  Position source = {position[0], position[1]};
  std::vector<size_t> axes;
  std::vector<std::vector<Tap>> taps;
  for (size_t i = 0; i < dimensions; ++i) {
    const Size& extent = e.ShapeOf(0)[i + 2];
    // The grid names the last dimension first.
    at.back() = e.Of(static_cast<int64_t>(dimensions - 1 - i));
    const int number = e.ReadAs(DType::kF32, 1, at);
    const int place = PlaceOfNumber(e, sampling, extent, number);
    const int floor = e.Unary(Opcode::kFloor, place);
    const int rest = e.Subtract(place, floor);
    std::vector<int> weights = {e.Number(DType::kF32, 1)};
    if (sampling.mode == "linear") weights = LinearWeights(e, rest);
    if (sampling.mode == "cubic") weights = CubicWeights(e, rest, -0.75);
    const int first = sampling.mode == "cubic" ? -1 : 0;
    std::vector<Tap> own;
    for (size_t tap = 0; tap < weights.size(); ++tap) {
      const int offset = e.Number(DType::kF32, first + static_cast<int>(tap));
      own.push_back(TapAt(e, sampling, extent, e.Add(floor, offset), weights[tap]));
    }
    source.push_back(0);
    axes.push_back(i + 2);
    taps.push_back(std::move(own));
  }
  return Interpolated(e, source, axes, taps);
}

constexpr NamedRule kSamplings[] = {{"GridSample", {Infer<SampleOutputs>, Emit<SampleElement>}}};

}  // namespace

std::span<const NamedRule> SamplingRules() { return kSamplings; }

}  // namespace kiln::graph
