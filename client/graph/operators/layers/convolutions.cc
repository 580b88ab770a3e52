// Convolutions, forwards and transposed, in any number of spatial dimensions.
#include <fmt/format.h>

#include <algorithm>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/windows.h"
#include "client/graph/operators/quantization.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// Which inputs are what. 0: none.
struct ConvInputs {
  size_t weight = 1;
  size_t bias = 0;
  size_t zero_point = 0;
  size_t weight_zero_point = 0;
};
constexpr ConvInputs kOfConv = {.bias = 2};
constexpr ConvInputs kOfConvInteger = {.zero_point = 2, .weight_zero_point = 3};
constexpr ConvInputs kOfQLinearConv = {
    .weight = 3, .bias = 8, .zero_point = 2, .weight_zero_point = 5};

Shape KernelOfWeight(const Operands& operands, size_t input = 1) {
  const Shape& weight = operands.ShapeOf(input);
  return weight.size() < 3 ? Shape() : Shape(weight.begin() + 2, weight.end());
}

absl::Status NotFitting(const Operands& operands, int64_t groups, size_t weight = 1) {
  return operands.Error(fmt::format("a weight of {} does not fit {} in {} groups",
                                    operands.Text(operands.ShapeOf(weight)),
                                    operands.Text(operands.ShapeOf(0)), groups));
}

absl::StatusOr<Outputs> OutputsOf(const Operands& operands, size_t weight_input, DType type) {
  const Shape kernel = KernelOfWeight(operands, weight_input);
  KILN_ASSIGN_OR_RETURN(const auto window, WindowOf(operands, kernel));
  const int64_t groups = operands.Int("group", 1);
  const Shape& weight = operands.ShapeOf(weight_input);
  if (window.kernel != kernel || groups < 1 || !Quotient(weight[0], groups) ||
      operands.ShapeOf(0)[1] != weight[1] * Size(groups)) {
    return NotFitting(operands, groups, weight_input);
  }
  KILN_ASSIGN_OR_RETURN(auto positions, PositionsOf(operands, window));
  Shape shape = {operands.ShapeOf(0)[0], weight[0]};
  shape.insert(shape.end(), positions.begin(), positions.end());
  return Outputs{{type, std::move(shape)}};
}

absl::StatusOr<Outputs> ConvOutputs(const Operands& operands) {
  return OutputsOf(operands, kOfConv.weight, operands.TypeOf(0));
}

absl::StatusOr<Outputs> ConvIntegerOutputs(const Operands& operands) {
  return OutputsOf(operands, kOfConvInteger.weight, DType::kI32);
}

// The inputs: x, its scale and zero point, the same of the weight and of the output, and a bias.
absl::StatusOr<Outputs> QLinearConvOutputs(const Operands& operands) {
  return OutputsOf(operands, kOfQLinearConv.weight, operands.TypeOf(7));
}

// A zero point or scale: one for all, or one for each channel.
int ParameterOf(ElementEmitter& e, DType type, size_t input, int channel) {
  const Position at(static_cast<size_t>(e.Rank(input)), channel);
  return e.ReadAs(type, input, e.Broadcast(input, at));
}

int ConvZeroPoint(ElementEmitter& e, size_t input, int channel) {
  if (input == 0 || !e.Has(input)) return e.Number(DType::kI32, 0);
  return ParameterOf(e, DType::kI32, input, channel);
}

// 0 in the padding.
int ReadInside(ElementEmitter& e, const WindowPlace& place, DType type, const Position& source) {
  e.BeginGuard(place.is_inside);
  const int x = e.ReadAs(type, 0, source);
  e.EndGuard();
  return x;
}

absl::StatusOr<int> Convolved(ElementEmitter& e, const ConvInputs& inputs,
                              const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto window, WindowOf(e, KernelOfWeight(e, inputs.weight)));
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Shape& weight = e.ShapeOf(inputs.weight);
  std::vector<Loop> loops = LoopsOf(e, window);
  const WindowPlace place = PlaceOf(e, window, {position.begin() + 2, position.end()}, loops);
  Position weight_at = {position[1]};
  const Loop channel = e.NewLoop(weight[1]);
  weight_at.push_back(channel.at);
  for (const Loop& loop : loops) weight_at.push_back(loop.at);
  loops.push_back(channel);
  const int64_t groups = e.Int("group", 1);
  // With one group, no channel of the output is in the input's index: emitters see a product.
  int first = e.Of(0);
  if (groups > 1) {
    const int group = e.Divide(position[1], e.Of(*Quotient(weight[0], groups)));
    first = e.Multiply(group, e.Of(weight[1]));
  }
  Position source = {position[0], e.Add(first, channel.at)};
  source.insert(source.end(), place.source.begin(), place.source.end());
  int sum = 0;
  if (inputs.zero_point != 0) {
    // Padding is the zero point: nothing after it is taken off.
    const int zero = ConvZeroPoint(e, inputs.zero_point, e.Of(0));
    const int x = e.Subtract(e.ReadIf(place.is_inside, DType::kI32, 0, source, zero), zero);
    const int w = e.Subtract(e.ReadAs(DType::kI32, inputs.weight, weight_at),
                             ConvZeroPoint(e, inputs.weight_zero_point, position[1]));
    sum = e.Sum(e.Multiply(x, w), loops);
  } else {
    const int x = ReadInside(e, place, type, source);
    sum = e.Sum(e.Multiply(x, e.ReadAs(type, inputs.weight, weight_at)), loops);
  }
  if (inputs.bias == 0 || !e.Has(inputs.bias)) return sum;
  return e.Add(sum, e.ReadAs(e.TypeOfValue(sum), inputs.bias, {position[1]}));
}

template <const ConvInputs& kInputs>
absl::StatusOr<int> ConvElement(ElementEmitter& e, int, const Position& position) {
  return Convolved(e, kInputs, position);
}

absl::StatusOr<int> QLinearConvElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const int sum, Convolved(e, kOfQLinearConv, position));
  const auto parameter = [&](size_t input) {
    return ParameterOf(e, DType::kF32, input, position[1]);
  };
  const int scale = e.Divide(e.Multiply(parameter(1), parameter(4)), parameter(6));
  const int value = e.Multiply(e.Cast(DType::kF32, sum), scale);
  return QuantizedTo(e, e.Output(0).type, value, parameter(7));
}

// The weight is [C, M / group, k...]. What forwards scatters, backwards gathers: an input element
// i meets output element o = i * stride + k * dilation - before.
struct Transposed {
  Window window;
  Shape positions;
};

absl::StatusOr<Transposed> TransposedOf(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto window, WindowOf(operands, KernelOfWeight(operands)));
  Transposed transposed{std::move(window), {}};
  Window& own = transposed.window;
  const size_t spatial = own.kernel.size();
  const auto extra = operands.Ints("output_padding").value_or(std::vector<int64_t>(spatial, 0));
  const auto wanted = operands.Ints("output_shape");
  const std::string mode = operands.String("auto_pad", "NOTSET");
  if (extra.size() != spatial || (wanted && wanted->size() != spatial)) {
    return operands.Error("output_padding and output_shape need one number for each dimension");
  }
  for (size_t i = 0; i < spatial; ++i) {
    const Size& extent = operands.ShapeOf(0)[i + 2];
    const Size span = (own.kernel[i] - Size(1)) * Size(own.dilations[i]) + Size(1);
    const Size full = (extent - Size(1)) * Size(own.strides[i]) + Size(extra[i]) + span;
    const bool is_same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (!wanted && !is_same) {
      transposed.positions.push_back(full - Size(own.before[i]) - Size(own.behind[i]));
      continue;
    }
    const Size size = wanted ? Size((*wanted)[i]) : extent * Size(own.strides[i]);
    const auto padding = (full - size).Constant();
    if (!padding) return operands.Missing("the padding depends on a size at run time");
    const int64_t all = std::max<int64_t>(0, *padding);
    own.before[i] = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
    own.behind[i] = all - own.before[i];
    transposed.positions.push_back(size);
  }
  return transposed;
}

absl::StatusOr<Outputs> ConvTransposeOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto transposed, TransposedOf(operands));
  const int64_t groups = operands.Int("group", 1);
  const Shape& weight = operands.ShapeOf(1);
  if (transposed.window.kernel != KernelOfWeight(operands) || groups < 1 ||
      !Quotient(weight[0], groups) || operands.ShapeOf(0)[1] != weight[0]) {
    return NotFitting(operands, groups);
  }
  Shape shape = {operands.ShapeOf(0)[0], weight[1] * Size(groups)};
  shape.insert(shape.end(), transposed.positions.begin(), transposed.positions.end());
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

absl::StatusOr<int> ConvTransposeElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto transposed, TransposedOf(e));
  const Window& window = transposed.window;
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Shape& weight = e.ShapeOf(1);
  const int64_t groups = e.Int("group", 1);
  const Size channels = *Quotient(weight[0], groups);
  std::vector<Loop> loops = LoopsOf(e, window);
  const Loop channel = e.NewLoop(channels);
  int from = channel.at;
  int into = position[1];
  if (groups > 1) {
    const int group = e.Divide(position[1], e.Of(weight[1]));
    from = e.Add(e.Multiply(group, e.Of(channels)), channel.at);
    into = e.Remainder(position[1], e.Of(weight[1]));
  }
  Position source = {position[0], from};
  Position weight_at = {from, into};
  const Position at(position.begin() + 2, position.end());
  const WindowPlace place =
      WindowAt(e, window, at, loops, {e.ShapeOf(0).begin() + 2, e.ShapeOf(0).end()});
  source.insert(source.end(), place.source.begin(), place.source.end());
  for (const Loop& loop : loops) weight_at.push_back(loop.at);
  loops.push_back(channel);
  const int sum =
      e.Sum(e.Multiply(ReadInside(e, place, type, source), e.ReadAs(type, 1, weight_at)), loops);
  return e.Has(2) ? e.Add(sum, e.ReadAs(type, 2, {position[1]})) : sum;
}

// --- CausalConvWithState: each channel by itself, over what came before and the input ---

// [N, C, L] and [C, 1, k]; the past has k - 1 elements of each channel.
absl::StatusOr<Outputs> CausalOutputs(const Operands& operands) {
  const Shape& x = operands.ShapeOf(0);
  const Shape& weight = operands.ShapeOf(1);
  if (x.size() != 3 || weight.size() != 3 || weight[0] != x[1] || weight[1] != Size(1)) {
    return NotFitting(operands, 1);
  }
  const Shape state = {x[0], x[1], weight[2] - Size(1)};
  if (operands.Has(3) && operands.ShapeOf(3) != state) {
    return operands.Error(fmt::format("the past has to be {}", operands.Text(state)));
  }
  const std::string activation = operands.String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return operands.Error(fmt::format("activation \"{}\" is unknown", activation));
  }
  return Outputs{{operands.TypeOf(0), x}, {operands.TypeOf(0), state}};
}

// Element `at` of the past and the input behind it.
int CausalInput(ElementEmitter& e, const Position& position, int at) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Size past = e.ShapeOf(1)[2] - Size(1);
  const int place = e.Subtract(at, e.Of(past));
  const int is_past = e.Less(at, e.Of(past));
  int old = e.Number(type, 0);
  if (e.Has(3)) old = e.ReadIf(is_past, type, 3, {position[0], position[1], at}, old);
  const int is_new = e.LessOrEqual(e.Of(0), place);
  return e.ReadIf(is_new, type, 0, {position[0], position[1], place}, old);
}

int CausalElement(ElementEmitter& e, int output, const Position& position) {
  if (output == 1) return CausalInput(e, position, e.Add(position[2], e.Of(e.ShapeOf(0)[2])));
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Loop loop = e.NewLoop(e.ShapeOf(1)[2]);
  const int x = CausalInput(e, position, e.Add(position[2], loop.at));
  const int weight = e.ReadAs(type, 1, {position[1], e.Of(0), loop.at});
  int sum = e.Sum(e.Multiply(x, weight), {loop});
  if (e.Has(2)) sum = e.Add(sum, e.ReadAs(type, 2, {position[1]}));
  if (e.String("activation", "none") == "none") return sum;
  const int one = e.Number(type, 1);
  const int exponential = e.Unary(Opcode::kExponential, e.Unary(Opcode::kNegate, sum));
  return e.Divide(sum, e.Add(one, exponential));
}

constexpr NamedRule kConvolutions[] = {
    {"Conv", {Infer<ConvOutputs>, Emit<ConvElement<kOfConv>>}},
    {"ConvInteger", {Infer<ConvIntegerOutputs>, Emit<ConvElement<kOfConvInteger>>}},
    {"QLinearConv", {Infer<QLinearConvOutputs>, Emit<QLinearConvElement>}},
    {"CausalConvWithState", {Infer<CausalOutputs>, Emit<CausalElement>}},
    {"ConvTranspose", {Infer<ConvTransposeOutputs>, Emit<ConvTransposeElement>}},
};

}  // namespace

std::span<const NamedRule> ConvolutionRules() { return kConvolutions; }

}  // namespace kiln::graph
