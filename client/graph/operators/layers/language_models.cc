// What language models join: rotary embeddings and gated units.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/rotation.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// The tensor is [batch, heads, length, width] or [batch, length, heads * width].
struct RotaryPlan {
  Size width;
  int64_t rotated = 0;  // columns from the first one on
};

absl::StatusOr<RotaryPlan> RotaryPlanOf(const Operands& operands) {
  const Shape& shape = operands.ShapeOf(0);
  if (shape.size() != 3 && shape.size() != 4) {
    return operands.Error("takes tensors of 3 or 4 dimensions");
  }
  const int64_t heads = shape.size() == 4 ? 1 : operands.Int("num_heads", 0);
  const auto width = heads < 1 ? std::nullopt : Quotient(shape.back(), heads);
  if (!width) return operands.Error("num_heads has to divide the last dimension");
  int64_t rotated = operands.Int("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = width->Constant().value_or(0);
  if (rotated < 2 || rotated % 2 != 0 || !operands.IsAtMost(rotated, *width)) {
    return operands.Error("the number of rotated columns has to be even and known");
  }
  return RotaryPlan{*width, rotated};
}

absl::StatusOr<Outputs> RotaryOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto plan, RotaryPlanOf(operands));
  const Shape& x = operands.ShapeOf(0);
  const Shape places = {x[0], x[x.size() - 2]};
  const Size half = plan.rotated / 2;
  const bool has_places = operands.Has(3);
  const Shape cache = {places[0], places[1], half};
  for (const size_t input : {1, 2}) {
    const Shape& given = operands.ShapeOf(input);
    const bool fits = has_places ? given.size() == 2 && given[1] == half : given == cache;
    if (!fits) {
      return operands.Error(fmt::format("a cache of {} does not fit {} rotated columns of {}",
                                        operands.Text(given), plan.rotated, operands.Text(x)));
    }
  }
  if (has_places && operands.ShapeOf(3) != places) {
    return operands.Error("position_ids need a place for each element of a sequence");
  }
  return Outputs{{operands.TypeOf(0), x}};
}

absl::StatusOr<int> RotaryElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto plan, RotaryPlanOf(e));
  const int place = position[position.size() - 2];
  Rotation rotation{1, 2, plan.rotated, e.Int("interleaved", 0) != 0, {position[0], place}};
  if (e.Has(3)) rotation.angle = {e.ReadIndex(3, {position[0], place}, e.ShapeOf(1)[0])};
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const int column = e.Remainder(position.back(), e.Of(plan.width));
  return Rotated(e, rotation, type, column, [&](int distance) {
    Position source = position;
    source.back() = e.Add(position.back(), distance);
    return e.ReadAs(type, 0, source);
  });
}

// Rotates new keys and writes them into a cache: inputs are keys [batch, heads, length, width],
// cosines, sines [places, width / 2], places [batch, length], the cache [batch, heads, size,
// width], and for each of the batch where the first key is written; its place where that is left
// out.
absl::StatusOr<Outputs> RotaryCacheOutputs(const Operands& operands) {
  const Shape& x = operands.ShapeOf(0);
  const Shape& cache = operands.ShapeOf(4);
  const auto width = x.size() == 4 ? x[3].Constant() : std::nullopt;
  if (!width || *width % 2 != 0) {
    return operands.Error("takes [batch, heads, length, width] with an even width that is known");
  }
  const Shape& angles = operands.ShapeOf(1);
  if (angles.size() != 2 || angles[1] != Size(*width / 2) || operands.ShapeOf(2) != angles ||
      operands.ShapeOf(3) != Shape{x[0], x[2]} || (operands.Has(5) && operands.Rank(5) != 1) ||
      cache.size() != 4 || cache[0] != x[0] || cache[1] != x[1] || cache[3] != x[3]) {
    return operands.Error(fmt::format("angles, places or a cache of {} do not fit {}",
                                      operands.Text(cache), operands.Text(x)));
  }
  return Outputs{{operands.TypeOf(0), x}, {operands.TypeOf(4), cache}};
}

int RotaryCacheElement(ElementEmitter& e, int output, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const int batch = position[0];
  // The cache's rows from `begin` on are new ones.
  int row = position[2];
  int is_new = e.make().Integer(DType::kBool, 1);
  if (output == 1) {
    const int first = e.Of(0);
    const int begin = e.Has(5) ? e.ReadAs(DType::kI64, 5, {batch})
                               : e.ReadIf(e.IsWithin(first, e.ShapeOf(0)[2]), DType::kI64, 3,
                                          {batch, first}, first);
    row = e.Subtract(row, begin);
    is_new = e.IsWithin(row, e.ShapeOf(0)[2]);
  }
  e.BeginGuard(is_new);
  const int64_t width = *e.ShapeOf(0)[3].Constant();
  const int place = e.ReadIndex(3, {batch, row}, e.ShapeOf(1)[0]);
  const Rotation rotation{1, 2, width, e.Int("interleaved", 0) != 0, {place}};
  const int rotated = Rotated(e, rotation, type, position[3], [&](int distance) {
    return e.ReadAs(type, 0, {batch, position[1], row, e.Add(position[3], distance)});
  });
  e.EndGuard();
  if (output == 0) return rotated;
  return e.Select(is_new, rotated, e.ReadAs(type, 4, position));
}

// A gate and what it scales: two inputs, or the halves of one along an axis.
absl::StatusOr<size_t> HalvedAxis(const Operands& operands) {
  return operands.Axis(operands.Int("axis", -1), operands.Rank(0));
}

absl::StatusOr<Outputs> GatedOutputs(const Operands& operands) {
  Shape shape = operands.ShapeOf(0);
  if (operands.Has(1)) {
    if (operands.ShapeOf(1) == shape) return Outputs{{operands.TypeOf(0), std::move(shape)}};
    return operands.Error(
        fmt::format("{} and {} differ", operands.Text(shape), operands.Text(operands.ShapeOf(1))));
  }
  KILN_ASSIGN_OR_RETURN(const auto axis, HalvedAxis(operands));
  const auto half = Quotient(shape[axis], 2);
  if (!half) return operands.Error(fmt::format("{} has no halves", operands.Text({shape[axis]})));
  shape[axis] = *half;
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

enum class Gate : uint8_t { kSigmoid, kSwish, kGelu };

int SigmoidOf(ElementEmitter& e, int x) {
  const int one = e.Number(e.TypeOfValue(x), 1);
  const int exponential = e.Unary(Opcode::kExponential, e.Unary(Opcode::kNegate, x));
  return e.Divide(one, e.Add(one, exponential));
}

int GeluOf(ElementEmitter& e, int x) {
  const DType type = e.TypeOfValue(x);
  int scaled = 0;
  if (e.String("approximate", "none") == "tanh") {
    const int cube = e.Multiply(e.Multiply(x, x), e.Multiply(x, e.Number(type, 0.044715)));
    const int factor = e.Number(type, std::sqrt(2 / std::numbers::pi));
    scaled = e.Unary(Opcode::kHyperbolicTangent, e.Multiply(factor, e.Add(x, cube)));
  } else {
    const int factor = e.Number(type, std::numbers::sqrt2 / 2);
    scaled = e.Unary(Opcode::kErrorFunction, e.Multiply(x, factor));
  }
  const int half = e.Multiply(x, e.Number(type, 0.5));
  return e.Multiply(half, e.Add(scaled, e.Number(type, 1)));
}

// SwiGLU and GeGLU gate with the first half, as SiLU(gate) * up; GLU with the second one.
template <Gate kGate>
int GatedElement(ElementEmitter& e, int, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const int first = e.ReadAs(type, 0, position);
  int second = 0;
  if (e.Has(1)) {
    second = e.ReadAs(type, 1, position);
  } else {
    const size_t axis = HalvedAxis(e).value_or(0);
    Position source = position;
    source[axis] = e.Add(position[axis], e.Of(*Quotient(e.ShapeOf(0)[axis], 2)));
    second = e.ReadAs(type, 0, source);
  }
  if constexpr (kGate == Gate::kSigmoid) return e.Multiply(first, SigmoidOf(e, second));
  if constexpr (kGate == Gate::kGelu) return e.Multiply(GeluOf(e, first), second);
  const double alpha = e.Float("alpha", 1);
  const int scaled = alpha == 1 ? first : e.Multiply(first, e.Number(type, alpha));
  return e.Multiply(e.Multiply(first, SigmoidOf(e, scaled)), second);
}

constexpr NamedRule kLanguageModels[] = {
    {"RotaryEmbedding", {Infer<RotaryOutputs>, Emit<RotaryElement>}},
    {"RotaryCache", {Infer<RotaryCacheOutputs>, Emit<RotaryCacheElement>}},
    {"GLU", {Infer<GatedOutputs>, Emit<GatedElement<Gate::kSigmoid>>}},
    {"SwiGLU", {Infer<GatedOutputs>, Emit<GatedElement<Gate::kSwish>>}},
    {"GeGLU", {Infer<GatedOutputs>, Emit<GatedElement<Gate::kGelu>>}},
};

}  // namespace

std::span<const NamedRule> LanguageModelRules() { return kLanguageModels; }

}  // namespace kiln::graph
