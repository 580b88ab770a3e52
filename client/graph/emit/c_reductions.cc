#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "client/graph/emit/c_printer.h"
#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

// Whether element x at position p takes the place of element y at position q.
std::string IsBetter(Reduction reduction, bool is_float, const std::string& x, const std::string& p,
                     const std::string& y, const std::string& q) {
  const bool is_minimum =
      reduction == Reduction::kFirstArgMinimum || reduction == Reduction::kLastArgMinimum;
  const char order = reduction >= Reduction::kLastArgMinimum ? '>' : '<';
  const std::string is_beyond = fmt::format("{} {} {}", x, is_minimum ? '<' : '>', y);
  if (!is_float) return fmt::format("{} || ({} == {} && {} {} {})", is_beyond, x, y, p, order, q);
  return fmt::format(
      "{0} || ({1} != {1} && {2} == {2}) || (({1} == {2} || ({1} != {1} && {2} != "
      "{2})) && {3} {4} {5})",
      is_beyond, x, y, p, order, q);
}

}  // namespace

// Reductions that can share a loop with this one: over the same axes, needed where it is needed,
// and independent of each other.
std::vector<int> CPrinter::GroupOf(int first, size_t depth) const {
  std::vector<int> group = {first};
  const int count = static_cast<int>(program_.instructions.size());
  for (int other = 0; other < count; ++other) {
    if (At(other).opcode != Opcode::kReduce || At(other).axes != At(first).axes ||
        AxesOf(other) != AxesOf(first) || other == first || open_[depth].names.contains(other)) {
      continue;
    }
    const bool is_needed = std::ranges::any_of(roots_, [&](int root) { return Uses(root, other); });
    const bool is_independent = std::ranges::none_of(
        group, [&](int member) { return Uses(member, other) || Uses(other, member); });
    if (is_needed && is_independent) group.push_back(other);
  }
  return group;
}

void CPrinter::Reduce(int first, size_t depth) {
  const std::vector<int> group = GroupOf(first, depth);
  const std::vector<Scope> deeper(
      std::make_move_iterator(open_.begin() + static_cast<long>(depth) + 1),
      std::make_move_iterator(open_.end()));
  open_.resize(depth + 1);
  for (const int member : group) Declare(member);
  InLoops(At(first).axes, [&] {
    // All values first: they may print loops of their own in front of this one.
    std::vector<std::string> values;
    for (const int member : group) values.push_back(Use(At(member).operands[0]));
    for (size_t i = 0; i < group.size(); ++i) {
      Accumulate(group[i], values[i], PositionOn(At(first).axes));
    }
  });
  if (layout_.shares_positions && depth == 0) CombineThreads(group);
  for (const int member : group) {
    if (!IsArgReduction(At(member).reduction)) continue;
    Line(open_.back(), fmt::format("if (v{0} < 0) v{0} = 0;", member));
  }
  open_.insert(open_.end(), deeper.begin(), deeper.end());
}

void CPrinter::Declare(int reduction) {
  const Instruction& reduce = At(reduction);
  const DType type = OperandType(reduce);
  Scope& scope = open_.back();
  scope.names[reduction] = fmt::format("v{}", reduction);
  if (!IsArgReduction(reduce.reduction)) {
    Line(scope, fmt::format("{} v{} = {};", CType(type), reduction,
                            CIdentity(dialect_, reduce.reduction, type)));
    return;
  }
  Line(scope, fmt::format("i64 v{} = -1;", reduction));  // no position so far
  Line(scope, fmt::format("{} best{} = 0;", CType(type), reduction));
}

// In row-major order of the axes.
std::string CPrinter::PositionOn(const std::vector<int>& axes) const {
  std::string position = fmt::format("a{}", axes[0]);
  for (size_t i = 1; i < axes.size(); ++i) {
    position = fmt::format("({} * {} + a{})", position, Extent(axes[i]), axes[i]);
  }
  return position;
}

// Takes an element in. The position, that of an argument reduction's element, may be -1 for none.
void CPrinter::Accumulate(int reduction, const std::string& x, const std::string& position) {
  const Instruction& reduce = At(reduction);
  const DType type = OperandType(reduce);
  Scope& scope = open_.back();
  const std::string v = fmt::format("v{}", reduction);
  if (!IsArgReduction(reduce.reduction)) {
    const std::string sum = expression_.Binary(OpcodeOf(reduce.reduction), type, v, x);
    return Line(scope, fmt::format("{} = {};", v, sum));
  }
  const std::string best = fmt::format("best{}", reduction);
  Line(scope, fmt::format("if ({0} >= 0 && ({1} < 0 || {2})) {{", position, v,
                          IsBetter(reduce.reduction, IsFloat(type), x, position, best, v)));
  Line(scope, fmt::format("  {} = {};", best, x));
  Line(scope, fmt::format("  {} = {};", v, position));
  Line(scope, "}");
}

// The variables of a reduction, and of what another thread has.
std::vector<CPrinter::Variable> CPrinter::VariablesOf(int reduction) const {
  const std::string_view type = CType(OperandType(At(reduction)));
  if (!IsArgReduction(At(reduction).reduction)) return {{type, fmt::format("v{}", reduction)}};
  return {{type, fmt::format("best{}", reduction)}, {"i64", fmt::format("v{}", reduction)}};
}

void CPrinter::AccumulateOther(int reduction) {
  const std::vector<Variable> variables = VariablesOf(reduction);
  Accumulate(reduction, "other_" + variables.front().name, "other_" + variables.back().name);
}

// Every thread has a part of each reduction. Afterwards every thread has the whole.
void CPrinter::CombineThreads(const std::vector<int>& group) {
  const int lanes = dialect_.lanes;
  if (lanes > 1) {
    InBlock(fmt::format("for (u32 step = {}; step > 0; step /= 2)", lanes / 2), [&] {
      for (const int member : group) {
        for (const auto& [type, name] : VariablesOf(member)) {
          Line(open_.back(), fmt::format("const {} other_{} = {};", type, name,
                                         fmt::format(fmt::runtime(dialect_.exchanged), name)));
        }
        AccumulateOther(member);
      }
    });
  }
  if (layout_.threads > lanes) CombineInMemory(group, layout_.threads / lanes);
}

// The first one of each `lanes` threads brings a part.
void CPrinter::CombineInMemory(const std::vector<int>& group, int parts) {
  std::vector<Variable> variables;
  for (const int member : group) {
    for (Variable& variable : VariablesOf(member)) variables.push_back(std::move(variable));
  }
  const int lanes = dialect_.lanes;
  for (const auto& [type, name] : variables) {
    Line(open_.back(), fmt::format("{} {} parts_{}[{}];", dialect_.shared, type, name, parts));
    Line(open_.back(),
         fmt::format("if (thread % {0} == 0) parts_{1}[thread / {0}] = {1};", lanes, name));
  }
  const std::string barrier = fmt::format("{};", dialect_.barrier);
  Line(open_.back(), barrier);
  InBlock(fmt::format("for (u32 step = {}; step > 0; step /= 2)", parts / 2), [&] {
    InBlock("if (thread < step)", [&] {
      for (const auto& [type, name] : variables) {
        Line(open_.back(), fmt::format("{0} = parts_{0}[thread];", name));
        Line(open_.back(),
             fmt::format("const {0} other_{1} = parts_{1}[thread + step];", type, name));
      }
      for (const int member : group) AccumulateOther(member);
      for (const auto& [type, name] : variables) {
        Line(open_.back(), fmt::format("parts_{0}[thread] = {0};", name));
      }
    });
    Line(open_.back(), barrier);
  });
  for (const auto& [type, name] : variables) {
    Line(open_.back(), fmt::format("{0} = parts_{0}[0];", name));
  }
}

}  // namespace kiln::graph
