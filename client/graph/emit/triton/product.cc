#include "client/graph/emit/triton/product.h"

#include <algorithm>
#include <set>
#include <utility>

#include "client/graph/emit/triton/axis_use.h"
#include "client/graph/emit/triton/block_sizes.h"
#include "client/graph/emit/triton/fp8.h"
#include "client/graph/emit/triton/tile_sizes.h"

namespace kiln::graph::triton {
namespace {

const Instruction& InstructionAt(const LoopProgram& program, int i) {
  return program.instructions[static_cast<size_t>(i)];
}

std::optional<DType> FactorType(DType left, DType right, const EmitOptions& options) {
  if (IsFp8(left) && IsFp8(right) && left != right) return DType::kF16;
  return left == right ? TileFactor(left, options.backend, options.architecture) : std::nullopt;
}

std::optional<int> OnlyReduction(const LoopProgram& program) {
  std::optional<int> found;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kReduce) continue;
    if (found.has_value()) return std::nullopt;
    found = static_cast<int>(i);
  }
  return found;
}

int64_t LargestPositions(const LoopProgram& program, const Axes& axes) {
  Size positions = 1;
  for (int axis : axes) positions *= program.axes[static_cast<size_t>(axis)].extent;
  return LargestOf(positions, program.symbols).value_or(INT64_MAX);
}

bool FitsGrid(const LoopProgram& program, const Product& product) {
  const int64_t shorter =
      std::min(LargestPositions(program, product.rows), LargestPositions(program, product.columns));
  return LargestPositions(program, product.batch) <= kMostBlocks &&
         shorter <= kMostBlocks * TileSizes{}.columns;
}

bool HasOuterPlainStoresAlone(const LoopProgram& program) {
  const std::vector<std::vector<int>> inner = InnerAxesOf(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& store = program.instructions[i];
    if (store.opcode != Opcode::kStore) continue;
    if (store.store != StoreKind::kPlain || !inner[i].empty()) return false;
  }
  return true;
}

}  // namespace

int FactorBeforeCast(const LoopProgram& program, int i) {
  const Instruction& cast = InstructionAt(program, i);
  if (cast.opcode != Opcode::kCast) return i;
  const DType from = InstructionAt(program, cast.operands[0]).type;
  const bool is_narrow_float = IsFloat(from) && FactsOf(from).bits <= 16;
  return (is_narrow_float && cast.type == DType::kF32) ||
                 (from == DType::kI8 && cast.type == DType::kI32)
             ? cast.operands[0]
             : i;
}

std::optional<Factors> FactorsOf(const LoopProgram& program, int sum, const EmitOptions& options) {
  const Instruction& reduce = InstructionAt(program, sum);
  if (reduce.opcode != Opcode::kReduce || reduce.reduction != Reduction::kSum) return std::nullopt;
  const Instruction& multiply = InstructionAt(program, reduce.operands[0]);
  if (multiply.opcode != Opcode::kMultiply) return std::nullopt;
  if (multiply.type != DType::kF32 && multiply.type != DType::kI32) return std::nullopt;
  Factors factors{multiply.operands[0], multiply.operands[1], multiply.type};
  const int left = FactorBeforeCast(program, factors.left);
  const int right = FactorBeforeCast(program, factors.right);
  const auto type =
      FactorType(InstructionAt(program, left).type, InstructionAt(program, right).type, options);
  if (type.has_value()) return Factors{left, right, *type};
  return multiply.type == DType::kF32 ? std::optional(factors) : std::nullopt;
}

std::optional<Product> FindProduct(const LoopProgram& program, const EmitOptions& options) {
  const std::optional<int> sum = OnlyReduction(program);
  if (!sum.has_value() || !HasOuterPlainStoresAlone(program)) return std::nullopt;
  const std::optional<Factors> factors = FactorsOf(program, *sum, options);
  if (!factors.has_value()) return std::nullopt;
  const std::vector<std::set<int>> used = UsedAxes(program);
  Product product{*sum, *factors, {}, {}, {}, InstructionAt(program, *sum).axes};
  // The last axis, whose positions are neighbours in the result, is one of columns.
  const auto uses = [&](int factor, int axis) {
    return used[static_cast<size_t>(factor)].contains(axis);
  };
  for (size_t i = program.axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(i);
    const bool is_left = uses(factors->left, axis);
    if (program.axes[i].is_inner || is_left == uses(factors->right, axis)) continue;
    if (is_left) std::swap(product.factors.left, product.factors.right);
    break;
  }
  for (size_t i = 0; i < program.axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    if (program.axes[i].is_inner) continue;
    const bool is_left = uses(product.factors.left, axis);
    const bool is_right = uses(product.factors.right, axis);
    (is_left == is_right ? product.batch
     : is_left           ? product.rows
                         : product.columns)
        .push_back(axis);
  }
  const bool has_depth = std::ranges::all_of(product.depth, [&](int axis) {
    return program.axes[static_cast<size_t>(axis)].extent == Size(1) ||
           (uses(product.factors.left, axis) && uses(product.factors.right, axis));
  });
  const bool is_matrix = has_depth && !product.rows.empty() && !product.columns.empty();
  return is_matrix && FitsGrid(program, product) ? std::optional(product) : std::nullopt;
}

}  // namespace kiln::graph::triton
