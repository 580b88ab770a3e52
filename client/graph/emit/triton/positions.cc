#include "client/graph/emit/triton/program_emitter.h"

namespace kiln::graph::triton {

Axes ProgramEmitter::OuterAxes() const {
  Axes outer;
  for (size_t i = 0; i < program_.axes.size(); ++i) {
    if (!program_.axes[i].is_inner) outer.push_back(static_cast<int>(i));
  }
  return outer;
}

Size ProgramEmitter::PositionsOf(const Axes& axes) const {
  Size positions = 1;
  for (int axis : axes) positions *= program_.axes[static_cast<size_t>(axis)].extent;
  return positions;
}

Block ProgramEmitter::Apply(std::string_view operation, Block left, Block right) {
  std::vector<Block> both = {left, right};
  Align(ir_, both);
  return {ir_.Binary(operation, both[0].value, both[1].value), both[0].rows, both[0].columns};
}

Block ProgramEmitter::Positions(Value first, int64_t count, bool is_row) {
  if (count == 1) return {first};
  const Value range = ir_.Cast("arith.extsi", ir_.MakeRange(0, count), Scalar::kI64);
  const Block lanes{range, is_row ? count : 1, is_row ? 1 : count};
  return Apply("arith.addi", {first}, lanes);
}

void ProgramEmitter::Split(Frame& frame, const Axes& axes, Block flat, bool is_narrow) {
  std::vector<Size> extents;
  for (int axis : axes) extents.push_back(program_.axes[static_cast<size_t>(axis)].extent);
  const Values positions = SplitPosition(ir_, extents, flat.value, is_narrow, symbols_);
  for (size_t i = 0; i < axes.size(); ++i) {
    frame.position[axes[i]] = {positions[i], flat.rows, flat.columns};
  }
}

void ProgramEmitter::AddOuterFrame(const Size& positions) {
  const Value program = ir_.Cast("arith.extsi", ir_.ProgramId(0), Scalar::kI64);
  const Value first = sizes_.rows == 1
                          ? program
                          : ir_.Binary("arith.muli", program, ir_.Integer(kIndex, sizes_.rows));
  Frame frame;
  frame.flat = Positions(first, sizes_.rows, true);
  if (positions.MultipleOf(program_.symbols) % sizes_.rows != 0) {
    std::vector<Block> both = {frame.flat, {SizeValue(positions)}};
    Align(ir_, both);
    frame.mask = Block{ir_.Compare("slt", both[0].value, both[1].value), sizes_.rows, 1};
  }
  const std::optional<int64_t> largest = LargestOf(positions, program_.symbols);
  Split(frame, OuterAxes(), frame.flat, largest.has_value() && *largest < INT32_MAX - sizes_.rows);
  frames_.push_back(std::move(frame));
}

}  // namespace kiln::graph::triton
