// Reductions over axes, arg reductions, cumulative sums.

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

enum class Reducing : uint8_t {
  kSum,
  kMean,
  kMaximum,
  kMinimum,
  kProduct,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare,
  kAll,
  kAny,
};

// For each dimension of the input, whether it is reduced.
absl::StatusOr<std::vector<bool>> ReducedDimensions(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axes, operands.IntsOrInput("axes", 1));
  const auto rank = static_cast<size_t>(operands.Rank(0));
  if (!axes || axes->empty()) {
    return std::vector<bool>(rank, operands.Int("noop_with_empty_axes", 0) == 0);
  }
  std::vector<bool> is_reduced(rank, false);
  for (const int64_t number : *axes) {
    KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(number, operands.Rank(0)));
    is_reduced[axis] = true;
  }
  return is_reduced;
}

Shape WithoutReduced(const Operands& operands, const std::vector<bool>& is_reduced) {
  const bool keeps = operands.Int("keepdims", 1) != 0;
  Shape shape;
  for (size_t i = 0; i < is_reduced.size(); ++i) {
    if (!is_reduced[i]) shape.push_back(operands.ShapeOf(0)[i]);
    if (is_reduced[i] && keeps) shape.push_back(1);
  }
  return shape;
}

absl::StatusOr<Outputs> ReduceOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto is_reduced, ReducedDimensions(operands));
  return Outputs{{operands.TypeOf(0), WithoutReduced(operands, is_reduced)}};
}

// The input's position: an inner axis where it is reduced, the output's position elsewhere.
Position ReducedPosition(ElementEmitter& e, const std::vector<bool>& is_reduced,
                         const Position& position, std::vector<Loop>& loops) {
  const bool keeps = e.Int("keepdims", 1) != 0;
  Position source;
  size_t next = 0;
  for (size_t i = 0; i < is_reduced.size(); ++i) {
    if (is_reduced[i]) {
      loops.push_back(e.NewLoop(e.ShapeOf(0)[i]));
      source.push_back(loops.back().at);
      if (keeps) ++next;
    } else {
      source.push_back(position[next++]);
    }
  }
  return source;
}

// Stable: exponentials of differences to the largest.
int LogSumExp(ElementEmitter& e, int x, const std::vector<Loop>& loops) {
  const int largest = e.Reduce(Reduction::kMaximum, x, loops);
  const int is_infinite = e.Unary(Opcode::kIsInfinite, largest);
  const int shift = e.Select(is_infinite, e.Number(e.TypeOfValue(x), 0), largest);
  const int sum = e.Sum(e.Unary(Opcode::kExponential, e.Subtract(x, shift)), loops);
  return e.Add(e.Unary(Opcode::kLogarithm, sum), shift);
}

int Reduced(ElementEmitter& e, Reducing reducing, int x, const std::vector<Loop>& loops,
            const Size& count) {
  const bool is_bool = e.TypeOfValue(x) == DType::kBool;
  switch (reducing) {
    case Reducing::kSum:
      return e.Sum(x, loops);
    case Reducing::kMean:
      return e.Divide(e.Sum(x, loops), e.Cast(e.TypeOfValue(x), e.Of(count)));
    case Reducing::kMaximum:
      return e.Reduce(is_bool ? Reduction::kOr : Reduction::kMaximum, x, loops);
    case Reducing::kMinimum:
      return e.Reduce(is_bool ? Reduction::kAnd : Reduction::kMinimum, x, loops);
    case Reducing::kAll:
      return e.Reduce(Reduction::kAnd, x, loops);
    case Reducing::kAny:
      return e.Reduce(Reduction::kOr, x, loops);
    case Reducing::kProduct:
      return e.Reduce(Reduction::kProduct, x, loops);
    case Reducing::kL1:
      return e.Sum(e.Unary(Opcode::kAbsolute, x), loops);
    case Reducing::kL2:
      return e.Unary(Opcode::kSquareRoot, e.Sum(e.Multiply(x, x), loops));
    case Reducing::kLogSum:
      return e.Unary(Opcode::kLogarithm, e.Sum(x, loops));
    case Reducing::kLogSumExp:
      return LogSumExp(e, x, loops);
    case Reducing::kSumSquare:
      return e.Sum(e.Multiply(x, x), loops);
  }
  return x;
}

// What sums need room, extremes keep their type; roots and logarithms of integers are floats.
DType TypeOfReducing(Reducing reducing, DType type) {
  const bool is_extreme = reducing == Reducing::kMaximum || reducing == Reducing::kMinimum;
  const bool is_logic = reducing == Reducing::kAll || reducing == Reducing::kAny;
  if (is_logic || (is_extreme && type == DType::kBool)) return DType::kBool;
  const bool needs_float = reducing == Reducing::kL2 || reducing == Reducing::kLogSum ||
                           reducing == Reducing::kLogSumExp;
  if (needs_float && !IsFloat(type)) return DType::kF64;
  if (type == DType::kBool) return DType::kI32;
  return is_extreme ? FactsOf(type).compute : FactsOf(type).accumulate;
}

template <Reducing kReducing>
absl::StatusOr<int> ReduceElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto is_reduced, ReducedDimensions(e));
  std::vector<Loop> loops;
  const Position source = ReducedPosition(e, is_reduced, position, loops);
  Size count = 1;
  for (size_t i = 0; i < is_reduced.size(); ++i) {
    if (is_reduced[i]) count *= e.ShapeOf(0)[i];
  }
  const int x = e.ReadAs(TypeOfReducing(kReducing, e.TypeOf(0)), 0, source);
  return Reduced(e, kReducing, x, loops, count);
}

absl::StatusOr<std::vector<bool>> ArgDimension(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.Axis(operands.Int("axis", 0), operands.Rank(0)));
  std::vector<bool> is_reduced(static_cast<size_t>(operands.Rank(0)), false);
  is_reduced[axis] = true;
  return is_reduced;
}

absl::StatusOr<Outputs> ArgOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto is_reduced, ArgDimension(operands));
  return Outputs{{DType::kI64, WithoutReduced(operands, is_reduced)}};
}

template <Reduction kFirst, Reduction kLast>
absl::StatusOr<int> ArgElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto is_reduced, ArgDimension(e));
  std::vector<Loop> loops;
  const Position source = ReducedPosition(e, is_reduced, position, loops);
  const DType type = e.TypeOf(0) == DType::kBool ? DType::kI32 : FactsOf(e.TypeOf(0)).compute;
  const bool is_last = e.Int("select_last_index", 0) != 0;
  return e.Reduce(is_last ? kLast : kFirst, e.ReadAs(type, 0, source), loops);
}

absl::StatusOr<size_t> CumulativeAxis(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto axis, operands.IntsOrInput("axis", 1));
  if (!axis || axis->size() != 1) return operands.Error("axis is one number");
  return operands.Axis((*axis)[0], operands.Rank(0));
}

absl::StatusOr<Outputs> CumulativeOutputs(const Operands& operands) {
  KILN_RETURN_IF_ERROR(CumulativeAxis(operands).status());
  return Outputs{{operands.TypeOf(0), operands.ShapeOf(0)}};
}

template <Reduction kReduction>
absl::StatusOr<int> CumulativeElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto axis, CumulativeAxis(e));
  const Loop loop = e.NewLoop(e.ShapeOf(0)[axis]);
  const bool is_reverse = e.Int("reverse", 0) != 0;
  const int early = is_reverse ? position[axis] : loop.at;
  const int late = is_reverse ? loop.at : position[axis];
  const int counts = e.Int("exclusive", 0) != 0 ? e.Less(early, late) : e.LessOrEqual(early, late);
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  Position source = position;
  source[axis] = loop.at;
  const int nothing = e.Number(type, kReduction == Reduction::kSum ? 0 : 1);
  return e.Reduce(kReduction, e.ReadIf(counts, type, 0, source, nothing), {loop});
}

template <Reducing kReducing>
constexpr LoweringRule kReduce = {Infer<ReduceOutputs>, Emit<ReduceElement<kReducing>>};

constexpr NamedRule kReductions[] = {
    {"ReduceSum", kReduce<Reducing::kSum>},
    {"ReduceMean", kReduce<Reducing::kMean>},
    {"ReduceMax", kReduce<Reducing::kMaximum>},
    {"ReduceMin", kReduce<Reducing::kMinimum>},
    {"ReduceProd", kReduce<Reducing::kProduct>},
    {"ReduceL1", kReduce<Reducing::kL1>},
    {"ReduceL2", kReduce<Reducing::kL2>},
    {"ReduceLogSum", kReduce<Reducing::kLogSum>},
    {"ReduceLogSumExp", kReduce<Reducing::kLogSumExp>},
    {"ReduceSumSquare", kReduce<Reducing::kSumSquare>},
    {"ReduceAll", kReduce<Reducing::kAll>},
    {"ReduceAny", kReduce<Reducing::kAny>},
    {"ArgMax",
     {Infer<ArgOutputs>,
      Emit<ArgElement<Reduction::kFirstArgMaximum, Reduction::kLastArgMaximum>>}},
    {"ArgMin",
     {Infer<ArgOutputs>,
      Emit<ArgElement<Reduction::kFirstArgMinimum, Reduction::kLastArgMinimum>>}},
    {"CumSum", {Infer<CumulativeOutputs>, Emit<CumulativeElement<Reduction::kSum>>}},
    {"CumProd", {Infer<CumulativeOutputs>, Emit<CumulativeElement<Reduction::kProduct>>}},
};

}  // namespace

std::span<const NamedRule> ReductionRules() { return kReductions; }

}  // namespace kiln::graph
