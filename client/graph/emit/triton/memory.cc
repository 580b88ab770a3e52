#include <fmt/format.h>

#include "client/graph/emit/triton/program_emitter.h"

namespace kiln::graph::triton {

Block ProgramEmitter::Pointers(int buffer, const Block& index) {
  const Value base = buffers_[static_cast<size_t>(buffer)];
  const std::vector<int64_t> shape = ShapeOf(index.rows, index.columns);
  const Value pointers = shape.empty() ? base : ir_.Splat(base, shape);
  return {ir_.AddPointer(pointers, index.value), index.rows, index.columns};
}

// Where a block of this shape has positions, and the guard is true.
std::optional<Block> ProgramEmitter::MaskOf(std::optional<Block> guard, int64_t rows,
                                            int64_t columns) {
  std::optional<Block> mask = guard;
  for (const Frame& frame : frames_) {
    if (!frame.mask.has_value()) continue;
    if ((frame.mask->rows > 1 && rows == 1) || (frame.mask->columns > 1 && columns == 1)) continue;
    mask = mask.has_value() ? Apply("arith.andi", *mask, *frame.mask) : *frame.mask;
  }
  if (mask.has_value()) mask = Expanded(ir_, *mask, rows, columns);
  return mask;
}

Block ProgramEmitter::Load(const Instruction& load) {
  std::vector<Block> blocks = {ValueOf(load.operands[0])};
  if (load.operands.size() > 1) blocks.push_back(ValueOf(load.operands[1]));
  Align(ir_, blocks);
  const Block& index = blocks[0];
  const Block pointers = Pointers(load.buffer, index);
  const std::optional<Block> mask = MaskOf(
      blocks.size() > 1 ? std::optional(blocks[1]) : std::nullopt, index.rows, index.columns);
  Value loaded;
  if (mask.has_value()) {
    Type type{MemoryScalar(load.type), ShapeOf(index.rows, index.columns)};
    const Value zero = type.IsFloat() ? ir_.Float(type, 0) : ir_.Integer(type, 0);
    loaded = ir_.Load(pointers.value, mask->value, zero);
  } else {
    loaded = ir_.Load(pointers.value);
  }
  return {scalars_.FromMemory(load.type, loaded), index.rows, index.columns};
}

void ProgramEmitter::Store(const Instruction& store) {
  std::vector<Block> blocks;
  for (int operand : store.operands) blocks.push_back(ValueOf(operand));
  // An atomic store happens once for each position, also where all have one index and one value.
  const bool is_plain = store.store == StoreKind::kPlain;
  Align(ir_, blocks, is_plain ? 1 : sizes_.rows, is_plain ? 1 : Columns());
  const Block& index = blocks[0];
  const Value pointers = Pointers(store.buffer, index).value;
  const std::optional<Block> guard = MaskOf(
      blocks.size() > 2 ? std::optional(blocks[2]) : std::nullopt, index.rows, index.columns);
  const std::optional<Value> mask = guard.has_value() ? std::optional(guard->value) : std::nullopt;
  const Value value = scalars_.ToMemory(store.type, blocks[1].value);
  if (is_plain) {
    ir_.Store(pointers, value, mask);
  } else if (store.store == StoreKind::kAtomicAdd) {
    ir_.AtomicRmw(IsFloat(store.type) ? "fadd" : "add", pointers, value, mask);
  } else if (IsFloat(store.type)) {
    StoreFloatExtreme(store, pointers, value, mask);
  } else {
    const bool is_signed = FactsOf(store.type).kind == DTypeClass::kSigned;
    const bool is_maximum = store.store == StoreKind::kAtomicMaximum;
    ir_.AtomicRmw(is_signed ? (is_maximum ? "max" : "min") : (is_maximum ? "umax" : "umin"),
                  pointers, value, mask);
  }
}

// The bits of floats are ordered as integers are: as signed ones where the new value is positive,
// and in reverse order of unsigned ones where it is negative.
void ProgramEmitter::StoreFloatExtreme(const Instruction& store, Value pointer, Value value,
                                       std::optional<Value> mask) {
  const Scalar scalar = FactsOf(store.type).bits == 64 ? Scalar::kI64 : Scalar::kI32;
  const Value bits = ir_.Cast("tt.bitcast", value, scalar);
  const Value places = ir_.BitCastPointer(pointer, scalar);
  const bool is_maximum = store.store == StoreKind::kAtomicMaximum;
  const Value zero = ir_.Integer(ir_.TypeOf(bits), 0);
  const auto masked = [&](Value where) {
    return mask.has_value() ? ir_.Binary("arith.andi", where, *mask) : where;
  };
  ir_.AtomicRmw(is_maximum ? "max" : "min", places, bits, masked(ir_.Compare("sge", bits, zero)));
  ir_.AtomicRmw(is_maximum ? "umin" : "umax", places, bits, masked(ir_.Compare("slt", bits, zero)));
}

// Stores come last, and each loop computes again what it needs. So it must not load what another
// loop has written, nor another element than it writes.
absl::Status ProgramEmitter::CheckStore(const std::vector<int>& group, bool is_one_block) {
  Visits visited;
  std::set<int> needed;
  for (int i : group) {
    for (int operand : At(i).operands) CollectNeeded(operand, {}, visited, needed);
  }
  std::map<int, std::set<int>> stored_at;  // by buffer: the instructions that are indices
  for (int i : group) stored_at[At(i).buffer].insert(At(i).operands[0]);
  for (int i : needed) {
    if (At(i).opcode != Opcode::kLoad) continue;
    const auto found = stored_at.find(At(i).buffer);
    const bool moves = found != stored_at.end() && !is_one_block &&
                       found->second != std::set<int>{At(i).operands[0]};
    if (moves || written_.contains(At(i).buffer)) {
      return absl::UnimplementedError(
          fmt::format("kernel {}: Triton IR: buffer {} is read after an earlier loop, or another "
                      "position, has written it: give the result a buffer of its own",
                      program_.name, program_.buffers[static_cast<size_t>(At(i).buffer)].name));
    }
  }
  for (int i : group) written_.insert(At(i).buffer);
  return absl::OkStatus();
}

}  // namespace kiln::graph::triton
