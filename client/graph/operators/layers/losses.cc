// Losses of scores [N, classes, D...] by the class of each target [N, D...].
#include <fmt/format.h>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"

namespace kiln::graph {
namespace {

absl::StatusOr<Outputs> LossOutputs(const Operands& operands) {
  const Shape& scores = operands.ShapeOf(0);
  if (scores.size() < 2) return operands.Error("takes scores [N, C, D...]");
  Shape targets = scores;
  targets.erase(targets.begin() + 1);
  if (operands.ShapeOf(1) != targets) {
    return operands.Error(fmt::format("targets {} do not fit scores {}",
                                      operands.Text(operands.ShapeOf(1)), operands.Text(scores)));
  }
  if (operands.Has(2) && operands.ShapeOf(2) != Shape{scores[1]}) {
    return operands.Error("each class needs one weight");
  }
  const std::string reduction = operands.String("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return operands.Error(fmt::format("there is no reduction \"{}\"", reduction));
  }
  if (reduction != "none") targets.clear();
  return Outputs{{operands.TypeOf(0), std::move(targets)}, {operands.TypeOf(0), scores}};
}

// Along the second dimension.
int LogProbability(ElementEmitter& e, const Position& position, int x) {
  const Loop loop = e.NewLoop(e.ShapeOf(0)[1]);
  Position source = position;
  source[1] = loop.at;
  const int other = e.ReadAs(e.TypeOfValue(x), 0, source);
  const int largest = e.Reduce(Reduction::kMaximum, other, {loop});
  const int sum = e.Sum(e.Unary(Opcode::kExponential, e.Subtract(other, largest)), {loop});
  return e.Subtract(e.Subtract(x, largest), e.Unary(Opcode::kLogarithm, sum));
}

struct WeightedLoss {
  int loss = 0;
  int weight = 0;
};

template <bool kTakesLogarithms>
WeightedLoss LossAt(ElementEmitter& e, const Position& target_at) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const int target = e.ReadAs(DType::kI64, 1, target_at);
  const int zero = e.Number(type, 0);
  int counts = e.IsWithin(target, e.ShapeOf(0)[1]);
  if (e.HasAttribute("ignore_index")) {
    const int ignored = e.make().Integer(DType::kI64, e.Int("ignore_index", 0));
    counts = e.And(counts, e.Binary(Opcode::kNotEqual, target, ignored));
  }
  Position source = target_at;
  source.insert(source.begin() + 1, target);
  int score = e.ReadIf(counts, type, 0, source, zero);
  if constexpr (kTakesLogarithms) score = LogProbability(e, source, score);
  const int weight = e.Has(2) ? e.ReadIf(counts, type, 2, {target}, zero)
                              : e.Select(counts, e.Number(type, 1), zero);
  const int loss = e.Unary(Opcode::kNegate, e.Multiply(weight, score));
  return {e.Select(counts, loss, zero), weight};
}

template <bool kTakesLogarithms>
int LossElement(ElementEmitter& e, int output, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  if (output == 1) return LogProbability(e, position, e.ReadAs(type, 0, position));
  const std::string reduction = e.String("reduction", "mean");
  if (reduction == "none") return LossAt<kTakesLogarithms>(e, position).loss;
  std::vector<Loop> loops;
  Position source;
  for (const Size& extent : e.ShapeOf(1)) {
    loops.push_back(e.NewLoop(extent));
    source.push_back(loops.back().at);
  }
  const WeightedLoss each = LossAt<kTakesLogarithms>(e, source);
  const int sum = e.Sum(each.loss, loops);
  return reduction == "sum" ? sum : e.Divide(sum, e.Sum(each.weight, loops));
}

constexpr NamedRule kLosses[] = {
    {"NegativeLogLikelihoodLoss", {Infer<LossOutputs>, Emit<LossElement<false>>}},
    {"SoftmaxCrossEntropyLoss", {Infer<LossOutputs>, Emit<LossElement<true>>}},
};

}  // namespace

std::span<const NamedRule> LossRules() { return kLosses; }

}  // namespace kiln::graph
