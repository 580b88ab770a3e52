// Writes one LoopProgram with an IrBuilder. Its methods are in program_emitter.cc, positions.cc,
// loops.cc and memory.cc.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/emit/triton/block.h"
#include "client/graph/emit/triton/block_sizes.h"
#include "client/graph/emit/triton/contiguity.h"
#include "client/graph/emit/triton/index_arithmetic.h"
#include "client/graph/emit/triton/ir_builder.h"
#include "client/graph/emit/triton/reductions.h"
#include "client/graph/emit/triton/scalar_lowering.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

using Values = IrBuilder::Values;

// The positions of some axes that a piece of the kernel computes at once: the outer ones, or the
// body of one loop.
struct Frame {
  Axes axes;                      // inner ones
  std::map<int, Block> position;  // by axis
  Block flat;                     // the position in row-major order of the axes
  std::optional<Block> mask;      // where there are positions behind the last
  int64_t columns = 1;            // above 1 where this frame gives blocks their columns
  std::map<int, Block> values;    // by instruction
};

class ProgramEmitter {
 public:
  ProgramEmitter(const LoopProgram& program, const EmitOptions& options)
      : program_(program),
        options_(options),
        axes_of_(InnerAxesOf(program)),
        ir_(program.name),
        scalars_(ir_, options_),
        is_wide_(NeighboursAreOuter(program)) {}

  absl::StatusOr<EmittedKernel> Run();

 private:
  const Instruction& At(int i) const { return program_.instructions[static_cast<size_t>(i)]; }
  const Axes& AxesOf(int i) const { return axes_of_[static_cast<size_t>(i)]; }
  DType TypeOf(int i) const { return At(i).type; }
  bool IsReduce(int i) const { return At(i).opcode == Opcode::kReduce; }
  const Axes& LoopAxes(int i) const { return IsReduce(i) ? At(i).axes : AxesOf(i); }

  Axes OuterAxes() const;
  Size PositionsOf(const Axes& axes) const;
  std::vector<int> Stores() const;
  int64_t ColumnsOf(const Axes& axes) const {
    return ColumnsFor(PositionsOf(axes), program_.symbols, is_wide_);
  }
  int64_t LargestColumns() const;
  absl::Status CheckStore(const std::vector<int>& group, bool is_one_block);

  void AddArguments();
  void AddOuterFrame(const Size& positions);
  Value SizeValue(const Size& size) { return triton::SizeValue(ir_, size, symbols_); }
  // Splits a position in row-major order of the axes into one for each.
  void Split(Frame& frame, const Axes& axes, Block flat, bool is_narrow);
  Block Positions(Value first, int64_t count, bool is_row);
  Block Apply(std::string_view operation, Block left, Block right);

  const Block* Lookup(int i) const;
  Block ValueOf(int i);
  // Emits what `roots` use, in this frame, as far as it has no value yet.
  using Visits = std::set<std::pair<int, Axes>>;
  void CollectNeeded(int i, const Axes& bound_later, Visits& visited, std::set<int>& needed) const;
  std::set<int> NeededBy(const std::vector<int>& roots) const;
  void EmitNeeded(const std::vector<int>& roots);
  bool IsReady(int reduce) const;
  struct Tally {
    int reduce;
    Accumulator accumulator;
  };
  std::vector<Tally> TalliesWith(int first, const std::set<int>& needed);
  void EmitReductions(int first, const std::set<int>& needed);
  Values Added(Tally& tally, int64_t columns);
  Block Compute(int i);
  Block Load(const Instruction& load);
  void Store(const Instruction& store);
  void StoreFloatExtreme(const Instruction& store, Value pointer, Value value,
                         std::optional<Value> mask);
  std::optional<Block> MaskOf(std::optional<Block> guard, int64_t rows, int64_t columns);
  Block Pointers(int buffer, const Block& index);
  int64_t Columns() const;

  // A loop over the axes: all at once, in blocks, or, within another loop, one by one. `body` is
  // called in a frame of the loop.
  using LoopBody = std::function<Values(const Values& carried)>;
  Values Loop(const Axes& axes, const Values& initial, const LoopBody& body);
  bool IsOneBlock(const Axes& axes) const;
  Values LoopOverBlocks(const Axes& axes, const Values& initial, const LoopBody& body);
  Values LoopOverPositions(const Axes& axes, const Values& initial, const LoopBody& body);
  Values InOneBlock(const Axes& axes, const Values& initial, const LoopBody& body);
  Frame FrameOfBlock(const Axes& axes, Value first, int64_t columns);

  const LoopProgram& program_;
  const EmitOptions options_;
  const std::vector<Axes> axes_of_;
  IrBuilder ir_;
  ScalarLowering scalars_;
  const bool is_wide_;  // blocks are, in outer positions
  BlockSizes sizes_;
  std::vector<Value> buffers_;
  std::vector<Value> symbols_;
  std::vector<Frame> frames_;
  std::map<Axes, Frame> block_frames_;  // of loops that have one block: their values stay
  std::set<int> written_;               // buffers, by earlier groups of stores
};

}  // namespace kiln::graph::triton
