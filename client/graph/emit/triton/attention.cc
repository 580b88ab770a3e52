#include "client/graph/emit/triton/attention.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "client/graph/emit/triton/axis_use.h"
#include "client/graph/emit/triton/block_sizes.h"
#include "client/graph/emit/triton/tile_sizes.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph::triton {
namespace {

class AttentionFinder {
 public:
  AttentionFinder(const LoopProgram& program, const EmitOptions& options)
      : program_(program), options_(options), used_(UsedAxes(program)) {}

  std::optional<Attention> Find() {
    if (!FindReductions() || !FindFactors() || !SortAxes() || !AreSizesRight()) return std::nullopt;
    FindMaskAndScale();
    return found_;
  }

 private:
  const Instruction& At(int i) const { return program_.instructions[static_cast<size_t>(i)]; }
  bool Uses(int i, int axis) const { return used_[static_cast<size_t>(i)].contains(axis); }
  bool UsesAny(int i, const Axes& axes) const {
    return std::ranges::any_of(axes, [&](int axis) { return Uses(i, axis); });
  }

  bool FindReductions() {
    std::vector<int> sums;
    int extremes = 0;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& one = program_.instructions[i];
      if (one.opcode == Opcode::kStore && one.store != StoreKind::kPlain) return false;
      if (one.opcode != Opcode::kReduce) continue;
      if (one.reduction == Reduction::kMaximum) {
        found_.largest = static_cast<int>(i);
        ++extremes;
      } else if (one.reduction == Reduction::kSum) {
        sums.push_back(static_cast<int>(i));
      }
    }
    if (extremes != 1 || sums.size() != 3 || At(found_.largest).type != DType::kF32) return false;
    found_.score = At(found_.largest).operands[0];
    found_.keys = At(found_.largest).axes;
    // The score's own sum comes first; the others go over keys.
    found_.products = sums[0];
    const bool is_total_last = At(sums[2]).operands[0] == Weight(sums[2]);
    found_.total = is_total_last ? sums[2] : sums[1];
    found_.weighted = is_total_last ? sums[1] : sums[2];
    return At(sums[1]).axes == found_.keys && At(sums[2]).axes == found_.keys;
  }

  // exp(score - largest), if the operand of the sum is that.
  int Weight(int sum) const {
    const int weight = At(sum).operands[0];
    return IsWeight(weight) ? weight : -1;
  }

  bool IsWeight(int i) const {
    const Instruction& exponential = At(i);
    if (exponential.opcode != Opcode::kExponential) return false;
    const Instruction& difference = At(exponential.operands[0]);
    return difference.opcode == Opcode::kSubtract && difference.operands[0] == found_.score &&
           difference.operands[1] == found_.largest;
  }

  bool FindFactors() {
    const int weight = Weight(found_.total);
    const Instruction& weighted = At(At(found_.weighted).operands[0]);
    if (weight < 0 || weighted.opcode != Opcode::kMultiply) return false;
    const bool is_first = weighted.operands[0] == weight;
    if (!is_first && weighted.operands[1] != weight) return false;
    found_.values.left = weight;
    const int value = weighted.operands[is_first ? 1 : 0];
    const bool is_rounded = IsRounded(found_.weighted);
    found_.values.right = is_rounded ? FactorBeforeCast(program_, value) : value;
    const DType type = At(found_.values.right).type;
    found_.values.type = is_rounded && IsFloat(type) && FactsOf(type).bits < 32
                             ? (type == DType::kBF16 ? DType::kBF16 : DType::kF16)
                             : DType::kF32;
    const std::optional<Factors> scores = FactorsOf(program_, found_.products, options_);
    if (!scores.has_value() || At(found_.products).type != DType::kF32) return false;
    found_.scores = *scores;
    found_.width = At(found_.products).axes;
    if (UsesAny(found_.scores.left, found_.keys)) {
      std::swap(found_.scores.left, found_.scores.right);
    }
    return !UsesAny(found_.scores.left, found_.keys) && UsesAny(found_.scores.right, found_.keys) &&
           UsesAny(found_.values.right, found_.keys) && UsesAny(found_.scores.left, found_.width) &&
           UsesAny(found_.scores.right, found_.width);
  }

  // Whether all that is computed from it is less precise than f32: then its weights may be, too.
  bool IsRounded(int i) const {
    for (size_t user = 0; user < program_.instructions.size(); ++user) {
      const Instruction& one = program_.instructions[user];
      if (std::ranges::count(one.operands, i) == 0) continue;
      const bool is_narrow = one.opcode == Opcode::kCast && FactsOf(one.type).bits <= 16;
      const bool is_quotient = one.opcode == Opcode::kDivide;
      if (!is_narrow && !(is_quotient && IsRounded(static_cast<int>(user)))) return false;
    }
    return true;
  }

  bool SortAxes() {
    for (size_t i = 0; i < program_.axes.size(); ++i) {
      const int axis = static_cast<int>(i);
      if (std::ranges::count(found_.keys, axis) + std::ranges::count(found_.width, axis) > 0) {
        continue;
      }
      const bool is_of_query = Uses(found_.scores.left, axis);
      const bool is_of_key = Uses(found_.scores.right, axis);
      const bool is_of_value = Uses(found_.values.right, axis);
      if (is_of_value && !is_of_key && !Uses(found_.values.left, axis)) {
        found_.columns.push_back(axis);
      } else if (program_.axes[i].is_inner) {
        return false;
      } else if (is_of_query && !is_of_key && !is_of_value) {
        found_.queries.push_back(axis);
      } else {
        found_.batch.push_back(axis);
      }
    }
    return !found_.queries.empty() && !found_.columns.empty() &&
           !UsesAny(found_.score, found_.columns);
  }

  std::optional<int64_t> Largest(const Axes& axes) const {
    Size positions = 1;
    for (int axis : axes) positions *= program_.axes[static_cast<size_t>(axis)].extent;
    return LargestOf(positions, program_.symbols);
  }

  bool AreSizesRight() const {
    return Largest(found_.width).value_or(INT64_MAX) <= kWidestHead &&
           Largest(found_.columns).value_or(INT64_MAX) <= kWidestHead &&
           Largest(found_.batch).value_or(INT64_MAX) <= kMostBlocks;
  }

  bool IsNever(int i) const {
    const Instruction& number = At(i);
    return number.opcode == Opcode::kConstant && std::isinf(number.number) && number.number < 0;
  }

  bool IsPosition(int i, const Axes& axes) const {
    return axes.size() == 1 && At(i).opcode == Opcode::kAxis && At(i).axis == axes[0];
  }

  int64_t UsesOf(int i) const {
    int64_t uses = 0;
    for (const Instruction& one : program_.instructions)
      uses += std::ranges::count(one.operands, i);
    return uses;
  }

  void FindMaskAndScale() {
    int i = found_.score;
    // A score that is not yet scaled goes to the largest and to the weights, and nowhere else.
    bool is_hidden = UsesOf(i) == 2;
    while (At(i).opcode == Opcode::kSelect && IsNever(At(i).operands[2])) {
      const int condition = At(i).operands[0];
      const Instruction& comparison = At(condition);
      if (comparison.opcode == Opcode::kLessOrEqual &&
          IsPosition(comparison.operands[0], found_.keys) &&
          IsPosition(comparison.operands[1], found_.queries)) {
        found_.is_before = condition;
      }
      i = At(i).operands[1];
      is_hidden = is_hidden && UsesOf(i) == 1;
    }
    if (!is_hidden || At(i).opcode != Opcode::kMultiply || UsesOf(found_.products) != 1) return;
    const bool is_first = At(i).operands[0] == found_.products;
    const int scale = At(i).operands[is_first ? 1 : 0];
    if ((!is_first && At(i).operands[1] != found_.products) || !IsPositive(scale)) return;
    found_.scaled = i;
    found_.scale = scale;
  }

  // One number above 0, for all positions.
  bool IsPositive(int i) const {
    const Instruction& number = At(i);
    if (!used_[static_cast<size_t>(i)].empty()) return false;
    return number.opcode == Opcode::kReciprocalSquareRoot ||
           (number.opcode == Opcode::kConstant && number.number > 0);
  }

  const LoopProgram& program_;
  const EmitOptions& options_;
  const std::vector<std::set<int>> used_;
  Attention found_;
};

}  // namespace

std::optional<Attention> FindAttention(const LoopProgram& program, const EmitOptions& options) {
  return AttentionFinder(program, options).Find();
}

}  // namespace kiln::graph::triton
