// Softmax of products of queries and keys, times values.
#include <limits>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/layers/attention_plan.h"
#include "client/graph/operators/layers/rotation.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

using PlanOf = absl::StatusOr<AttentionPlan> (*)(const Operands& operands);

constexpr size_t kQueries = 0;
constexpr size_t kKeys = 1;
constexpr size_t kValues = 2;
// Outputs behind the result: keys and values of all calls, and scores.
constexpr int kPresentKeys = 1;
constexpr int kScores = 3;

// Where head, place and column lie.
struct HeadPosition {
  int batch = 0;
  int head = 0;
  int place = 0;
  int column = 0;
};

Position PositionIn(ElementEmitter& e, size_t input, const HeadPosition& at, const Size& width) {
  if (e.Rank(input) == 4) return {at.batch, at.head, at.place, at.column};
  return {at.batch, at.place, e.Add(e.Multiply(at.head, e.Of(width)), at.column)};
}

HeadPosition HeadPositionOf(ElementEmitter& e, const Position& position, const Size& width) {
  if (position.size() == 4) return {position[0], position[1], position[2], position[3]};
  const int of = e.Of(width);
  return {position[0], e.Divide(position[2], of), position[1], e.Remainder(position[2], of)};
}

template <PlanOf kPlanOf>
absl::StatusOr<Outputs> AttentionOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto plan, kPlanOf(operands));
  Shape shape = operands.ShapeOf(0);
  shape.back() = shape.size() == 4 ? plan.v.width : plan.q.heads * plan.v.width;
  const Size& batch = operands.ShapeOf(0)[0];
  return Outputs{{operands.TypeOf(0), std::move(shape)},
                 {operands.TypeOf(kKeys), {batch, plan.k.heads, plan.total, plan.k.width}},
                 {operands.TypeOf(kValues), {batch, plan.v.heads, plan.total, plan.v.width}},
                 {operands.TypeOf(0), {batch, plan.q.heads, plan.q.length, plan.total}}};
}

// How many keys of earlier calls there are.
int PastOf(ElementEmitter& e, const AttentionPlan& plan, int batch) {
  if (!plan.last) return e.Of(plan.past);
  const int last = e.ReadAs(DType::kI64, *plan.last, {batch});
  return e.Maximum(e.Subtract(last, e.Of(plan.k.length - Size(1))), e.Of(0));
}

// An element of queries, new keys or new values.
int ReadNew(ElementEmitter& e, const AttentionPlan& plan, size_t input, const HeadPosition& at) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Heads& heads = input == kQueries ? plan.q : input == kKeys ? plan.k : plan.v;
  const auto read = [&](int distance) {
    HeadPosition moved = at;
    moved.column = e.Add(at.column, distance);
    const int x = e.ReadAs(type, input, PositionIn(e, input, moved, heads.width));
    if (!plan.bias) return x;
    const Size before = plan.q.heads * plan.q.width * Size(static_cast<int64_t>(input));
    const int column = e.Add(e.Multiply(at.head, e.Of(heads.width)), moved.column);
    return e.Add(x, e.ReadAs(type, *plan.bias, {e.Add(e.Of(before), column)}));
  };
  if (!plan.cosines || input == kValues) return read(e.Of(0));
  const int place = e.Add(PastOf(e, plan, at.batch), at.place);
  const int64_t half = *e.ShapeOf(*plan.cosines)[1].Constant();
  const Rotation rotation{*plan.cosines, *plan.cosines + 1, 2 * half, plan.is_interleaved, {place}};
  return Rotated(e, rotation, type, at.column, read);
}

// An element of keys or values of all calls.
int ReadKey(ElementEmitter& e, const AttentionPlan& plan, size_t input, const HeadPosition& at) {
  const auto past = input == kKeys ? plan.past_keys : plan.past_values;
  if (!past) return ReadNew(e, plan, input, at);
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  HeadPosition moved = at;
  moved.place = e.Subtract(at.place, PastOf(e, plan, at.batch));
  const int is_new = e.IsWithin(moved.place, plan.k.length);
  const int is_old = e.Less(at.place, e.Of(plan.past));
  const int old =
      e.ReadIf(is_old, type, *past, {at.batch, at.head, at.place, at.column}, e.Number(type, 0));
  e.BeginGuard(is_new);
  const int element = ReadNew(e, plan, input, moved);
  e.EndGuard();
  return e.Select(is_new, element, old);
}

int WithMask(ElementEmitter& e, const AttentionPlan& plan, const HeadPosition& at, int key,
             int score) {
  const DType type = e.TypeOfValue(score);
  const int never = e.Number(type, -std::numeric_limits<double>::infinity());
  const Position source = e.Broadcast(*plan.mask, {at.batch, at.head, at.place, key});
  const Size& extent = e.ShapeOf(*plan.mask).back();
  const int is_given =
      extent == plan.total ? e.make().Integer(DType::kBool, 1) : e.Less(key, e.Of(extent));
  if (e.TypeOf(*plan.mask) == DType::kBool) {
    const int no = e.make().Integer(DType::kBool, 0);
    return e.Select(e.ReadIf(is_given, DType::kBool, *plan.mask, source, no), score, never);
  }
  return e.Add(score, e.ReadIf(is_given, type, *plan.mask, source, never));
}

int WithPadding(ElementEmitter& e, const AttentionPlan& plan, int batch, int key, int score) {
  const size_t input = *plan.padding;
  const bool is_length = e.Rank(input) == 1;
  const int given =
      e.ReadAs(DType::kI64, input, is_length ? Position{batch} : Position{batch, key});
  const int counts = is_length ? e.Less(key, given) : e.Less(e.Of(0), given);
  return e.Select(counts, score, e.Add(score, e.Number(e.TypeOfValue(score), plan.padded)));
}

// Scores of keys that the query does not see are -infinity.
int Masked(ElementEmitter& e, const AttentionPlan& plan, const HeadPosition& at, int key,
           int score) {
  const int never = e.Number(e.TypeOfValue(score), -std::numeric_limits<double>::infinity());
  int past = PastOf(e, plan, at.batch);
  if (plan.valid) {
    const int valid = e.ReadAs(DType::kI64, *plan.valid, {at.batch});
    score = e.Select(e.Less(key, valid), score, never);
    past = e.Subtract(valid, e.Of(plan.q.length));
  }
  const int place = e.Add(at.place, past);
  if (plan.is_causal) score = e.Select(e.LessOrEqual(key, place), score, never);
  if (plan.left >= 0) {
    const int first = e.Subtract(place, e.Of(plan.left));
    score = e.Select(e.LessOrEqual(first, key), score, never);
  }
  if (plan.right >= 0) {
    const int last = e.Add(place, e.Of(plan.right));
    score = e.Select(e.LessOrEqual(key, last), score, never);
  }
  if (plan.padding) score = WithPadding(e, plan, at.batch, key, score);
  return plan.mask ? WithMask(e, plan, at, key, score) : score;
}

// What qk_matmul_output_mode counts.
enum class Stage : uint8_t { kProduct, kCapped, kMasked, kSoftmax };

int ScoreAt(ElementEmitter& e, const AttentionPlan& plan, const HeadPosition& at, int key,
            Stage stage) {
  const Loop loop = e.NewLoop(plan.q.width);
  const int shared = e.Divide(at.head, e.Of(plan.queries_per_head));
  const int query = ReadNew(e, plan, kQueries, {at.batch, at.head, at.place, loop.at});
  const int other = ReadKey(e, plan, kKeys, {at.batch, shared, key, loop.at});
  const int sum = e.Sum(e.Multiply(query, other), {loop});
  const DType type = e.TypeOfValue(sum);
  const int scale = plan.scale
                        ? e.Number(type, *plan.scale)
                        : e.Unary(Opcode::kReciprocalSquareRoot, e.Cast(type, e.Of(plan.q.width)));
  int score = e.Multiply(sum, scale);
  if (stage == Stage::kProduct) return score;
  // Before the mask, which it would lift from -infinity.
  if (plan.softcap > 0) {
    const int most = e.Number(type, plan.softcap);
    score = e.Multiply(e.Unary(Opcode::kHyperbolicTangent, e.Divide(score, most)), most);
  }
  if (stage == Stage::kCapped) return score;
  score = Masked(e, plan, at, key, score);
  return plan.is_double ? e.Cast(DType::kF64, score) : score;
}

// Exponentials of one query's scores.
struct Weights {
  Loop key;
  int shift = 0;
  int weight = 0;
  int sum = 0;
};

Weights WeightsOf(ElementEmitter& e, const AttentionPlan& plan, const HeadPosition& at) {
  Weights weights;
  weights.key = e.NewLoop(plan.total);
  const int score = ScoreAt(e, plan, at, weights.key.at, Stage::kMasked);
  weights.shift = e.Reduce(Reduction::kMaximum, score, {weights.key});
  // Without a key all weights are 0, and so is the result.
  if (plan.MayBeEmpty()) {
    const int zero = e.Number(e.TypeOfValue(score), 0);
    weights.shift = e.Select(e.Unary(Opcode::kIsInfinite, weights.shift), zero, weights.shift);
  }
  weights.weight = e.Unary(Opcode::kExponential, e.Subtract(score, weights.shift));
  weights.sum = e.Sum(weights.weight, {weights.key});
  if (plan.MayBeEmpty()) {
    const int zero = e.Number(e.TypeOfValue(score), 0);
    const int one = e.Number(e.TypeOfValue(score), 1);
    weights.sum = e.Select(e.Equal(weights.sum, zero), one, weights.sum);
  }
  return weights;
}

int ScoresElement(ElementEmitter& e, const AttentionPlan& plan, const Position& position) {
  const HeadPosition at{position[0], position[1], position[2], 0};
  const auto stage = static_cast<Stage>(e.Int("qk_matmul_output_mode", 0));
  if (stage != Stage::kSoftmax) return ScoreAt(e, plan, at, position[3], stage);
  const Weights weights = WeightsOf(e, plan, at);
  const int own = ScoreAt(e, plan, at, position[3], Stage::kMasked);
  const int weight = e.Unary(Opcode::kExponential, e.Subtract(own, weights.shift));
  return e.Divide(weight, weights.sum);
}

template <PlanOf kPlanOf>
absl::StatusOr<int> AttentionElement(ElementEmitter& e, int output, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto plan, kPlanOf(e));
  if (output == kScores) return ScoresElement(e, plan, position);
  if (output > 0) {
    return ReadKey(e, plan, output == kPresentKeys ? kKeys : kValues,
                   {position[0], position[1], position[2], position[3]});
  }
  const HeadPosition at = HeadPositionOf(e, position, plan.v.width);
  const Weights weights = WeightsOf(e, plan, at);
  const int shared = e.Divide(at.head, e.Of(plan.queries_per_head));
  const int value = ReadKey(e, plan, kValues, {at.batch, shared, weights.key.at, at.column});
  const int product = e.Multiply(weights.weight, e.Cast(e.TypeOfValue(weights.weight), value));
  return e.Divide(e.Sum(product, {weights.key}), weights.sum);
}

// A row of scores serves all columns of values.
std::vector<int> ColumnsOfValues(const Segment& segment, const Operation& operation) {
  if (Operands(segment, operation).Rank(0) != 4) return {};
  return {3};
}

template <PlanOf kPlanOf>
constexpr LoweringRule kAttentionRule = {Infer<AttentionOutputs<kPlanOf>>,
                                         Emit<AttentionElement<kPlanOf>>, ColumnsOfValues};

constexpr NamedRule kAttention[] = {
    {"Attention", kAttentionRule<PlanOfAttention>},
    {"MultiHeadAttention", kAttentionRule<PlanOfMultiHead>},
    {"GroupQueryAttention", kAttentionRule<PlanOfGroupQuery>},
};

}  // namespace

std::span<const NamedRule> AttentionRules() { return kAttention; }

}  // namespace kiln::graph
