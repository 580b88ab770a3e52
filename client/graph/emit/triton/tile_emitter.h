// Computes instructions of a LoopProgram for tiles: blocks of positions along up to two dimensions
// at once. What a kernel does with tiles, as products or attention, is its caller's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/emit/triton/axis_use.h"
#include "client/graph/emit/triton/index_arithmetic.h"
#include "client/graph/emit/triton/ir_builder.h"
#include "client/graph/emit/triton/product.h"
#include "client/graph/emit/triton/scalar_lowering.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// The tensor has the dimensions that the value differs along, in ascending order. A scalar has
// none.
struct Tile {
  Value value;
  std::vector<int> dimensions;
};

// Values live in scopes: one for each region of the kernel that is being written.
class TileEmitter {
 public:
  TileEmitter(const LoopProgram& program, const EmitOptions& options)
      : program_(program),
        used_(UsedAxes(program)),
        options_(options),
        ir_(program.name),
        scalars_(ir_, options_) {}

  IrBuilder& ir() { return ir_; }
  const LoopProgram& program() const { return program_; }

  void AddArguments();
  Size PositionsOf(const Axes& axes) const;
  Value SizeOf(const Size& size) { return SizeValue(ir_, size, symbols_); }
  Value Number(int64_t number) { return ir_.Integer(kIndex, number); }
  // Positions on the axes, in row-major order, are along a new dimension, `extent` at once.
  int AddDimension(Axes axes, int64_t extent);
  // From here to the end of the scope the tile has the positions from `first` on.
  // `is_whole`: it is known that none is behind the last one.
  void MoveTo(int dimension, Value first, bool is_whole = false);
  // From here to the end of the scope the tile has one position on each of the axes.
  void MoveTo(const Axes& axes, Value position);
  // What the tile has behind the last position; nothing where there is none such.
  std::optional<Value> MaskOf(int dimension) const;

  void OpenScope() { scopes_.emplace_back(); }
  void CloseScope() { scopes_.pop_back(); }
  void Define(int instruction, Tile tile) { scopes_.back().values[instruction] = std::move(tile); }
  // Computes it and what it needs, as far as that has no value yet.
  Tile ValueOf(int instruction);
  // Before a loop along the dimension: computes what `instruction` needs and is the same in each
  // turn, and of indices all but how far the turn has come.
  void Prepare(int instruction, int dimension);
  void Store(int instruction);

  std::vector<int64_t> ShapeOf(const std::vector<int>& dimensions) const;
  Value Expanded(const Tile& tile, const std::vector<int>& dimensions);
  // A factor of a product, ready for Dot: of factors.type, and 0 behind the end of `depth`.
  Value FactorOf(int instruction, const Factors& factors, const std::vector<int>& dimensions,
                 int depth);
  // A product added to the accumulator.
  Value Dot(const Factors& factors, Value left, Value right, Value accumulator) {
    return ir_.Dot(left, right, accumulator, factors.type == DType::kF32 && options_.fast_math);
  }
  Value Apply(Opcode opcode, DType type, Value operand) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.type = type;
    return scalars_.Compute(instruction, type, {operand});
  }
  Value Cast(DType from, DType to, Value value) { return scalars_.Cast(from, to, value); }

 private:
  struct Dimension {
    Axes axes;
    int64_t extent;
  };
  // What an index is where its tile starts at 0. Each step along the dimension adds `stride`.
  struct Start {
    Tile index;
    int dimension;
    Size stride;
  };
  struct Scope {
    std::map<int, Tile> values;     // by instruction
    std::map<int, Tile> positions;  // by axis
    std::map<int, Value> masks;     // by dimension
    std::map<int, Value> firsts;    // by dimension
    std::map<int, Start> starts;    // by instruction
  };

  const Instruction& At(int i) const { return program_.instructions[static_cast<size_t>(i)]; }
  const Tile* Lookup(int i) const;
  void CollectNeeded(int i, std::set<int>& needed) const;
  void PrepareWithout(int i, int dimension, std::set<int>& visited);
  // How far the index moves with each step on the axis; nothing where that is not known.
  std::optional<Size> StrideAlong(int index, int axis) const;
  void PrepareIndex(int index, int dimension);
  const Start* StartOf(int index) const;
  Value LanesOf(int dimension);
  void SetPositions(const Axes& axes, Value flat, const std::vector<int>& dimensions);
  Tile Compute(int i);
  Tile Load(const Instruction& load, std::optional<Scalar> as = std::nullopt);
  Tile Pointers(const Instruction& access);
  std::optional<Value> MaskFor(const std::vector<int>& dimensions, std::optional<Tile> guard);
  void Align(std::vector<Tile>& tiles);

  const LoopProgram& program_;
  const std::vector<std::set<int>> used_;
  const EmitOptions options_;
  IrBuilder ir_;
  ScalarLowering scalars_;
  std::vector<Value> buffers_;
  std::vector<Value> symbols_;
  std::vector<Dimension> dimensions_;
  std::vector<Scope> scopes_ = {{}};
};

}  // namespace kiln::graph::triton
