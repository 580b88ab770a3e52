#include "client/graph/emit/triton/product_emitter.h"

#include <utility>

#include "client/graph/emit/triton/block_sizes.h"
#include "client/graph/emit/triton/tile_emitter.h"
#include "client/graph/emit/triton/tile_sizes.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph::triton {
namespace {

class ProductEmitter {
 public:
  ProductEmitter(const LoopProgram& program, const Product& product, const EmitOptions& options)
      : product_(product), tiles_(program, options), ir_(tiles_.ir()) {
    const auto typical = [&](const Axes& axes) {
      return TypicalOf(tiles_.PositionsOf(axes), program.symbols);
    };
    sizes_ =
        TilesOfProduct({typical(product.batch), typical(product.rows), typical(product.columns),
                        typical(product.depth), product.factors.type},
                       options);
    rows_ = tiles_.AddDimension(product.rows, sizes_.rows);
    depth_ = tiles_.AddDimension(product.depth, sizes_.depth);
    columns_ = tiles_.AddDimension(product.columns, sizes_.columns);
  }

  absl::StatusOr<EmittedKernel> Run(const EmitOptions& options) {
    tiles_.AddArguments();
    MoveToProgram();
    tiles_.Define(product_.sum, {Sum(), {rows_, columns_}});
    const LoopProgram& program = tiles_.program();
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (program.instructions[i].opcode == Opcode::kStore) tiles_.Store(static_cast<int>(i));
    }
    absl::StatusOr<std::string> text = ir_.Finish();
    if (!text.ok()) return text.status();
    return EmittedKernel{Language::kTritonIr, *std::move(text), program.name,
                         ThreadsOf(sizes_.warps, options), Grid()};
  }

 private:
  Value Blocks(const Axes& axes, int64_t tile) {
    const Value positions = tiles_.SizeOf(tiles_.PositionsOf(axes));
    const Value rounded = ir_.Binary("arith.addi", positions, tiles_.Number(tile - 1));
    return ir_.Binary("arith.divui", rounded, tiles_.Number(tile));
  }

  // The first dimension of a grid is the one that may be long.
  bool HasMoreRows() const {
    const std::vector<Symbol>& symbols = tiles_.program().symbols;
    const auto largest = [&](const Axes& axes) {
      return LargestOf(tiles_.PositionsOf(axes), symbols).value_or(INT64_MAX);
    };
    return largest(product_.rows) >= largest(product_.columns);
  }

  std::vector<GridFactor> Grid() const {
    std::vector<GridFactor> grid = {{tiles_.PositionsOf(product_.rows), sizes_.rows},
                                    {tiles_.PositionsOf(product_.columns), sizes_.columns},
                                    {tiles_.PositionsOf(product_.batch), 1}};
    if (!HasMoreRows()) std::swap(grid[0], grid[1]);
    return grid;
  }

  Value ProgramId(int axis) { return ir_.Cast("arith.extsi", ir_.ProgramId(axis), Scalar::kI64); }

  // Programs that run at the same time take tiles near each other, so that the cache holds the
  // factors that they share: first down a few rows, then to the next columns.
  void MoveToProgram() {
    const Value rows = Blocks(product_.rows, sizes_.rows);
    const Value columns = Blocks(product_.columns, sizes_.columns);
    const Value along_y = ir_.Binary("arith.muli", ProgramId(1), HasMoreRows() ? rows : columns);
    const Value number = ir_.Binary("arith.addi", ProgramId(0), along_y);
    const Value group_rows = tiles_.Number(kProductGroupRows);
    const Value group_size = ir_.Binary("arith.muli", columns, group_rows);
    const Value group = ir_.Binary("arith.divui", number, group_size);
    const Value first = ir_.Binary("arith.muli", group, group_rows);
    const Value height =
        ir_.Binary("arith.minsi", ir_.Binary("arith.subi", rows, first), group_rows);
    const Value within = ir_.Binary("arith.remui", number, group_size);
    const Value row = ir_.Binary("arith.addi", first, ir_.Binary("arith.remui", within, height));
    const Value column = ir_.Binary("arith.divui", within, height);
    tiles_.MoveTo(rows_, ir_.Binary("arith.muli", row, tiles_.Number(sizes_.rows)));
    tiles_.MoveTo(columns_, ir_.Binary("arith.muli", column, tiles_.Number(sizes_.columns)));
    tiles_.MoveTo(product_.batch, ProgramId(2));
  }

  Value Sum() {
    const Factors& factors = product_.factors;
    tiles_.Prepare(factors.left, depth_);
    tiles_.Prepare(factors.right, depth_);
    const DType type = tiles_.program().instructions[static_cast<size_t>(product_.sum)].type;
    const Type sum{ScalarOf(type), {sizes_.rows, sizes_.columns}};
    const Value zero = sum.IsFloat() ? ir_.Float(sum, 0) : ir_.Integer(sum, 0);
    const auto turn = [&](Value first, const IrBuilder::Values& carried) {
      tiles_.OpenScope();
      tiles_.MoveTo(depth_, first);
      const Value left = tiles_.FactorOf(factors.left, factors, {rows_, depth_}, depth_);
      const Value right = tiles_.FactorOf(factors.right, factors, {depth_, columns_}, depth_);
      const Value added = tiles_.Dot(factors, left, right, carried[0]);
      tiles_.CloseScope();
      return IrBuilder::Values{added};
    };
    const Value start = tiles_.Number(0);
    const Value end = tiles_.SizeOf(tiles_.PositionsOf(product_.depth));
    return ir_.For(start, end, tiles_.Number(sizes_.depth), {zero}, turn, sizes_.stages)[0];
  }

  const Product& product_;
  TileEmitter tiles_;
  IrBuilder& ir_;
  TileSizes sizes_;
  int rows_ = 0;
  int depth_ = 0;
  int columns_ = 0;
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitProduct(const LoopProgram& program, const Product& product,
                                          const EmitOptions& options) {
  return ProductEmitter(program, product, options).Run(options);
}

}  // namespace kiln::graph::triton
