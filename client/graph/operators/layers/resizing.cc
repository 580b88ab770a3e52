// Resize and Upsample: nearest, linear and cubic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/interpolation.h"
#include "client/graph/operators/layers/resized_dimensions.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// Where in the input an output's place lies.
enum class Coordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCrop,
};

absl::StatusOr<Coordinates> CoordinatesOf(const Operands& operands, std::string_view otherwise) {
  const std::string mode = operands.String("coordinate_transformation_mode", otherwise);
  if (mode == "half_pixel") return Coordinates::kHalfPixel;
  if (mode == "half_pixel_symmetric") return Coordinates::kHalfPixelSymmetric;
  if (mode == "pytorch_half_pixel") return Coordinates::kPytorchHalfPixel;
  if (mode == "align_corners") return Coordinates::kAlignCorners;
  if (mode == "asymmetric") return Coordinates::kAsymmetric;
  if (mode == "tf_crop_and_resize" && operands.Has(1)) return Coordinates::kCrop;
  return operands.Error(
      fmt::format("coordinates \"{}\" are unknown, or their roi is missing", mode));
}

struct Resizing {
  ResizedShape shape;
  Coordinates coordinates = Coordinates::kHalfPixel;
  std::string mode;
};

// Elements that an output element takes. A kernel's code has a step for each.
constexpr double kTapsMax = 4096;

bool IsStretched(const Operands& operands, double scale) {
  return operands.Int("antialias", 0) != 0 && scale < 1;
}

absl::Status CheckTaps(const Operands& operands, const Resizing& resizing) {
  double taps = 1;
  for (const ResizedDimension& dimension : resizing.shape.dimensions) {
    if (!IsStretched(operands, dimension.scale)) continue;
    taps *= (resizing.mode == "cubic" ? 4 : 2) / dimension.scale;
  }
  if (taps <= kTapsMax) return absl::OkStatus();
  return operands.Missing(fmt::format("antialiasing over {:.0f} elements", taps));
}

// Upsample has no attributes of coordinates.
template <size_t kScales>
absl::StatusOr<Resizing> ResizingOf(const Operands& operands) {
  const bool is_upsample = kScales == 1;
  KILN_ASSIGN_OR_RETURN(const auto shape, ResizedShapeOf(operands, kScales));
  KILN_ASSIGN_OR_RETURN(const auto coordinates,
                        CoordinatesOf(operands, is_upsample ? "asymmetric" : "half_pixel"));
  Resizing resizing{shape, coordinates, operands.String("mode", "nearest")};
  if (resizing.mode == "nearest") return resizing;
  if (resizing.mode == "linear" || resizing.mode == "cubic") {
    KILN_RETURN_IF_ERROR(CheckTaps(operands, resizing));
    return resizing;
  }
  return operands.Error(fmt::format("mode \"{}\" is unknown", resizing.mode));
}

template <size_t kScales>
absl::StatusOr<Outputs> ResizeOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto resizing, ResizingOf<kScales>(operands));
  Shape shape;
  for (const ResizedDimension& dimension : resizing.shape.dimensions) {
    shape.push_back(dimension.extent);
  }
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

// The output's last place. ONNX does not round the output's size here.
int LastPlace(ElementEmitter& e, const Size& extent, const ResizedDimension& dimension) {
  if (const auto known = extent.Constant()) {
    return e.Number(DType::kF32, static_cast<double>(*known) * dimension.scale - 1);
  }
  return e.Cast(DType::kF32, e.Of(dimension.extent - Size(1)));
}

bool IsResizedToOne(const Size& extent, const ResizedDimension& dimension) {
  const auto known = extent.Constant();
  return known && static_cast<double>(*known) * dimension.scale == 1;
}

// The first and the last place stay where they are.
int PlaceBetweenCorners(ElementEmitter& e, const Size& extent, const ResizedDimension& dimension,
                        int x) {
  if (IsResizedToOne(extent, dimension)) return e.Number(DType::kF32, 0);
  const int last = e.Cast(DType::kF32, e.Of(extent - Size(1)));
  return e.Divide(e.Multiply(x, last), LastPlace(e, extent, dimension));
}

// roi has the first and the last place of the crop, as parts of the input's size.
int PlaceInCrop(ElementEmitter& e, const Resizing& resizing, const Size& extent,
                const ResizedDimension& dimension, int x) {
  const int last = e.Cast(DType::kF32, e.Of(extent - Size(1)));
  const int begin = e.ReadAs(DType::kF32, 1, {e.Of(dimension.roi)});
  const auto axes = static_cast<int64_t>(resizing.shape.axes);
  const int end = e.ReadAs(DType::kF32, 1, {e.Of(dimension.roi + axes)});
  const int length = e.Multiply(e.Subtract(end, begin), last);
  const int origin = e.Multiply(begin, last);
  if (IsResizedToOne(extent, dimension)) {
    return e.Add(origin, e.Multiply(length, e.Number(DType::kF32, 0.5)));
  }
  return e.Add(origin, e.Divide(e.Multiply(x, length), LastPlace(e, extent, dimension)));
}

// An f32: the place in the input, which may lie outside.
int PlaceInInput(ElementEmitter& e, const Resizing& resizing, const Size& extent,
                 const ResizedDimension& dimension, int at) {
  const Coordinates coordinates = resizing.coordinates;
  const auto number = [&](double x) { return e.Number(DType::kF32, x); };
  const int x = e.Cast(DType::kF32, at);
  const auto size = [&](const Size& of) { return e.Cast(DType::kF32, e.Of(of)); };
  if (coordinates == Coordinates::kAsymmetric) return e.Divide(x, number(dimension.scale));
  if (coordinates == Coordinates::kAlignCorners)
    return PlaceBetweenCorners(e, extent, dimension, x);
  if (coordinates == Coordinates::kCrop) return PlaceInCrop(e, resizing, extent, dimension, x);
  if (coordinates == Coordinates::kPytorchHalfPixel && dimension.extent == Size(1)) {
    return number(0);
  }
  const int middle = e.Divide(e.Add(x, number(0.5)), number(dimension.scale));
  const int place = e.Subtract(middle, number(0.5));
  if (coordinates != Coordinates::kHalfPixelSymmetric) return place;
  // What rounding the output's size took away is left out on both sides alike.
  const int exact = e.Multiply(size(extent), number(dimension.scale));
  const int lost = e.Subtract(number(1), e.Divide(size(dimension.extent), exact));
  return e.Add(place, e.Multiply(e.Multiply(size(extent), number(0.5)), lost));
}

int NearestOf(ElementEmitter& e, int place, std::string_view mode) {
  const int half = e.Number(DType::kF32, 0.5);
  if (mode == "floor") return e.Unary(Opcode::kFloor, place);
  if (mode == "ceil") return e.Unary(Opcode::kCeiling, place);
  if (mode == "round_prefer_ceil") return e.Unary(Opcode::kFloor, e.Add(place, half));
  return e.Unary(Opcode::kCeiling, e.Subtract(place, half));
}

// An index that lies within the input.
int NearestWithin(ElementEmitter& e, int place, const Size& extent) {
  const int index = e.Cast(DType::kI64, place);
  return e.Maximum(e.Of(0), e.Minimum(index, e.Of(extent - Size(1))));
}

// The neighbours of a place, and their weights. When shrinking, antialiasing stretches them over
// all elements that become one.
std::vector<Tap> TapsOf(ElementEmitter& e, const Resizing& resizing, const Size& extent,
                        double scale, int place) {
  const bool is_cubic = resizing.mode == "cubic";
  const double a = e.Float("cubic_coeff_a", -0.75);
  const int floor = e.Unary(Opcode::kFloor, place);
  const int rest = e.Subtract(place, floor);
  const bool is_stretched = IsStretched(e, scale);
  int64_t first = is_cubic ? -1 : 0;
  std::vector<int> weights;
  if (is_stretched) {
    first = static_cast<int64_t>(std::floor((is_cubic ? -2 : -1) / scale)) + 1;
    for (int64_t i = first; i < 2 - first; ++i) {
      const int offset = e.Subtract(e.Number(DType::kF32, static_cast<double>(i)), rest);
      const int distance = e.Multiply(offset, e.Number(DType::kF32, scale));
      weights.push_back(is_cubic ? CubicAt(e, distance, a) : LinearAt(e, distance));
    }
  } else {
    weights = is_cubic ? CubicWeights(e, rest, a) : LinearWeights(e, rest);
  }
  const int always = e.make().Integer(DType::kBool, 1);
  const bool excludes = e.Int("exclude_outside", 0) != 0;
  int sum = e.Number(DType::kF32, 0);
  std::vector<Tap> taps;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int offset = e.Number(DType::kF32, static_cast<double>(first) + static_cast<double>(i));
    const int at = e.Add(floor, offset);
    int weight = weights[i];
    if (excludes) {
      const int is_inside = e.IsWithin(e.Cast(DType::kI64, at), extent);
      weight = e.Select(is_inside, weight, e.Number(DType::kF32, 0));
    }
    sum = e.Add(sum, weight);
    taps.push_back({NearestWithin(e, at, extent), weight, always});
  }
  if (!excludes && !is_stretched) return taps;
  for (Tap& tap : taps) tap.weight = e.Divide(tap.weight, sum);
  return taps;
}

template <size_t kScales>
absl::StatusOr<int> ResizeElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto resizing, ResizingOf<kScales>(e));
  const std::string rounding = e.String("nearest_mode", kScales == 1 ? "floor" : "");
  Position source = position;
  std::vector<size_t> axes;
  std::vector<std::vector<Tap>> taps;
  int is_inside = e.make().Integer(DType::kBool, 1);
  for (size_t i = 0; i < position.size(); ++i) {
    const Size& extent = e.ShapeOf(0)[i];
    const ResizedDimension& dimension = resizing.shape.dimensions[i];
    const bool is_crop = resizing.coordinates == Coordinates::kCrop && dimension.roi >= 0;
    if (dimension.scale == 1 && dimension.extent == extent && !is_crop) continue;
    const int place = PlaceInInput(e, resizing, extent, dimension, position[i]);
    if (is_crop) {
      const int last = e.Cast(DType::kF32, e.Of(extent - Size(1)));
      const int is_behind = e.LessOrEqual(e.Number(DType::kF32, 0), place);
      is_inside = e.And(is_inside, e.And(is_behind, e.LessOrEqual(place, last)));
    }
    if (resizing.mode == "nearest") {
      source[i] = NearestWithin(e, NearestOf(e, place, rounding), extent);
      continue;
    }
    axes.push_back(i);
    taps.push_back(TapsOf(e, resizing, extent, dimension.scale, place));
  }
  const int element =
      resizing.mode == "nearest" ? e.Read(0, source) : Interpolated(e, source, axes, taps);
  if (resizing.coordinates != Coordinates::kCrop) return element;
  const double beyond = e.Float("extrapolation_value", 0);
  return e.Select(is_inside, element, e.Number(e.TypeOfValue(element), beyond));
}

constexpr NamedRule kResizes[] = {
    {"Resize", {Infer<ResizeOutputs<2>>, Emit<ResizeElement<2>>}},
    {"Upsample", {Infer<ResizeOutputs<1>>, Emit<ResizeElement<1>>}},
};

}  // namespace

std::span<const NamedRule> ResizeRules() { return kResizes; }

}  // namespace kiln::graph
