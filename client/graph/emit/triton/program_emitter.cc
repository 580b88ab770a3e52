#include "client/graph/emit/triton/program_emitter.h"

#include <algorithm>

#include "client/graph/emit/triton/axis_use.h"
#include "storage/base/status.h"

namespace kiln::graph::triton {

std::vector<int> ProgramEmitter::Stores() const {
  std::vector<int> stores;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    if (program_.instructions[i].opcode == Opcode::kStore) stores.push_back(static_cast<int>(i));
  }
  return stores;
}

int64_t ProgramEmitter::LargestColumns() const {
  int64_t columns = 1;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const int number = static_cast<int>(i);
    const bool is_loop =
        IsReduce(number) ? AxesOf(number).empty() : At(number).opcode == Opcode::kStore;
    if (is_loop) {
      columns = std::max(columns, ColumnsOf(LoopAxes(number)));
    }
  }
  return columns;
}

void ProgramEmitter::AddArguments() {
  for (const Buffer& buffer : program_.buffers) {
    buffers_.push_back(
        ir_.Argument(buffer.name, PointerTo(MemoryScalar(buffer.type)), buffer.alignment));
  }
  for (const Symbol& symbol : program_.symbols) {
    symbols_.push_back(ir_.Argument(symbol.name, kIndex, symbol.multiple_of));
  }
}

int64_t ProgramEmitter::Columns() const {
  int64_t columns = 1;
  for (const Frame& frame : frames_) columns = std::max(columns, frame.columns);
  return columns;
}

const Block* ProgramEmitter::Lookup(int i) const {
  for (size_t depth = frames_.size(); depth-- > 0;) {
    const auto found = frames_[depth].values.find(i);
    if (found != frames_[depth].values.end()) return &found->second;
    if (Meets(frames_[depth].axes, AxesOf(i))) return nullptr;
  }
  return nullptr;
}

Block ProgramEmitter::ValueOf(int i) {
  const Block* found = Lookup(i);
  return found != nullptr ? *found : Block{};
}

// `bound_later` are the axes of loops on the way to `i`: what depends on them has its value there.
void ProgramEmitter::CollectNeeded(int i, const Axes& bound_later, Visits& visited,
                                   std::set<int>& needed) const {
  if (!visited.insert({i, bound_later}).second) return;
  if (!Meets(AxesOf(i), bound_later)) {
    if (Lookup(i) != nullptr) return;
    needed.insert(i);
  }
  Axes within = bound_later;
  if (IsReduce(i)) within.insert(within.end(), At(i).axes.begin(), At(i).axes.end());
  for (int operand : At(i).operands) CollectNeeded(operand, within, visited, needed);
}

std::set<int> ProgramEmitter::NeededBy(const std::vector<int>& roots) const {
  Visits visited;
  std::set<int> needed;
  const bool is_outermost = frames_.size() == 1;
  for (int root : roots) {
    const bool is_store = At(root).opcode == Opcode::kStore;
    // A reduction's own operand is computed within its loop, as are the operands of a store.
    const Axes later = is_store && is_outermost ? AxesOf(root) : Axes{};
    for (int operand : At(root).operands) CollectNeeded(operand, later, visited, needed);
  }
  return needed;
}

void ProgramEmitter::EmitNeeded(const std::vector<int>& roots) {
  const std::set<int> needed = NeededBy(roots);
  for (int i : needed) {
    if (Lookup(i) != nullptr) continue;
    if (IsReduce(i)) {
      EmitReductions(i, needed);
    } else {
      frames_.back().values[i] = Compute(i);
    }
  }
}

Block ProgramEmitter::Compute(int i) {
  const Instruction& instruction = At(i);
  switch (instruction.opcode) {
    case Opcode::kConstant:
      return {scalars_.Constant(instruction)};
    case Opcode::kSize:
      return {SizeValue(instruction.size)};
    case Opcode::kAxis:
      for (size_t depth = frames_.size(); depth-- > 0;) {
        const auto found = frames_[depth].position.find(instruction.axis);
        if (found != frames_[depth].position.end()) return found->second;
      }
      return {};
    case Opcode::kLoad:
      return Load(instruction);
    default:
      break;
  }
  std::vector<Block> blocks;
  for (int operand : instruction.operands) blocks.push_back(ValueOf(operand));
  Align(ir_, blocks);
  Values operands;
  for (const Block& block : blocks) operands.push_back(block.value);
  const DType from = TypeOf(instruction.operands.back());
  return {scalars_.Compute(instruction, from, operands), blocks[0].rows, blocks[0].columns};
}

absl::StatusOr<EmittedKernel> ProgramEmitter::Run() {
  const Size positions = PositionsOf(OuterAxes());
  sizes_ = BlockSizesFor(positions, LargestColumns(), program_.symbols, is_wide_);
  AddArguments();
  AddOuterFrame(positions);
  std::vector<int> stores = Stores();
  EmitNeeded(stores);
  while (!stores.empty()) {
    const Axes axes = AxesOf(stores[0]);
    std::vector<int> group;
    std::ranges::copy_if(stores, std::back_inserter(group),
                         [&](int i) { return AxesOf(i) == axes; });
    std::erase_if(stores, [&](int i) { return AxesOf(i) == axes; });
    if (axes.empty()) {
      for (int i : group) Store(At(i));
      for (int i : group) written_.insert(At(i).buffer);
      continue;
    }
    KILN_RETURN_IF_ERROR(CheckStore(group, IsOneBlock(axes)));
    Loop(axes, {}, [&](const Values&) {
      EmitNeeded(group);
      for (int i : group) Store(At(i));
      return Values{};
    });
  }
  absl::StatusOr<std::string> text = ir_.Finish();
  if (!text.ok()) return text.status();
  return EmittedKernel{Language::kTritonIr,
                       *std::move(text),
                       program_.name,
                       ThreadsOf(sizes_.warps, options_),
                       {{positions, sizes_.rows}}};
}

}  // namespace kiln::graph::triton
