#include "client/graph/emit/triton/tile_emitter.h"

#include <algorithm>

#include "client/graph/emit/triton/block_sizes.h"
#include "client/graph/emit/triton/fp8.h"

namespace kiln::graph::triton {

void TileEmitter::AddArguments() {
  for (const Buffer& buffer : program_.buffers) {
    buffers_.push_back(
        ir_.Argument(buffer.name, PointerTo(MemoryScalar(buffer.type)), buffer.alignment));
  }
  for (const Symbol& symbol : program_.symbols) {
    symbols_.push_back(ir_.Argument(symbol.name, kIndex, symbol.multiple_of));
  }
}

Size TileEmitter::PositionsOf(const Axes& axes) const {
  Size positions = 1;
  for (int axis : axes) positions *= program_.axes[static_cast<size_t>(axis)].extent;
  return positions;
}

int TileEmitter::AddDimension(Axes axes, int64_t extent) {
  dimensions_.push_back({std::move(axes), extent});
  return static_cast<int>(dimensions_.size()) - 1;
}

void TileEmitter::SetPositions(const Axes& axes, Value flat, const std::vector<int>& dimensions) {
  std::vector<Size> extents;
  for (int axis : axes) extents.push_back(program_.axes[static_cast<size_t>(axis)].extent);
  const std::optional<int64_t> largest = LargestOf(PositionsOf(axes), program_.symbols);
  // A tile goes beyond the last position by less than its extent.
  const bool is_narrow = largest.has_value() && *largest < INT32_MAX / 2;
  const std::vector<Value> positions = SplitPosition(ir_, extents, flat, is_narrow, symbols_);
  for (size_t i = 0; i < axes.size(); ++i) {
    scopes_.back().positions[axes[i]] = {positions[i], dimensions};
  }
}

Value TileEmitter::LanesOf(int dimension) {
  const Value lanes = ir_.MakeRange(0, dimensions_[static_cast<size_t>(dimension)].extent);
  return ir_.Cast("arith.extsi", lanes, Scalar::kI64);
}

void TileEmitter::MoveTo(int dimension, Value first, bool is_whole) {
  const Dimension& tile = dimensions_[static_cast<size_t>(dimension)];
  scopes_.back().firsts[dimension] = first;
  const Value start = ir_.Splat(first, {tile.extent});  // before the lanes, whatever compiles this
  const Value flat = ir_.Binary("arith.addi", start, LanesOf(dimension));
  const Size positions = PositionsOf(tile.axes);
  const bool is_even = positions.MultipleOf(program_.symbols) % tile.extent == 0;
  if (!is_whole && (!is_even || positions == Size(0))) {
    const Value end = ir_.Splat(SizeOf(positions), {tile.extent});
    scopes_.back().masks[dimension] = ir_.Compare("slt", flat, end);
  }
  SetPositions(tile.axes, flat, {dimension});
}

void TileEmitter::MoveTo(const Axes& axes, Value position) { SetPositions(axes, position, {}); }

std::optional<Value> TileEmitter::MaskOf(int dimension) const {
  for (size_t depth = scopes_.size(); depth-- > 0;) {
    const auto found = scopes_[depth].masks.find(dimension);
    if (found != scopes_[depth].masks.end()) return found->second;
  }
  return std::nullopt;
}

const Tile* TileEmitter::Lookup(int i) const {
  for (size_t depth = scopes_.size(); depth-- > 0;) {
    const auto found = scopes_[depth].values.find(i);
    if (found != scopes_[depth].values.end()) return &found->second;
  }
  return nullptr;
}

const TileEmitter::Start* TileEmitter::StartOf(int index) const {
  for (size_t depth = scopes_.size(); depth-- > 0;) {
    const auto found = scopes_[depth].starts.find(index);
    if (found == scopes_[depth].starts.end()) continue;
    // Behind the loop it is an index as others.
    return scopes_.back().firsts.contains(found->second.dimension) ? &found->second : nullptr;
  }
  return nullptr;
}

void TileEmitter::CollectNeeded(int i, std::set<int>& needed) const {
  if (Lookup(i) != nullptr || !needed.insert(i).second) return;
  for (int operand : At(i).operands) {
    if (At(i).opcode != Opcode::kLoad || StartOf(operand) == nullptr) {
      CollectNeeded(operand, needed);
    }
  }
}

Tile TileEmitter::ValueOf(int instruction) {
  std::set<int> needed;
  CollectNeeded(instruction, needed);
  for (int i : needed) Define(i, Compute(i));
  return *Lookup(instruction);
}

void TileEmitter::Prepare(int instruction, int dimension) {
  std::set<int> visited;
  PrepareWithout(instruction, dimension, visited);
}

void TileEmitter::PrepareWithout(int i, int dimension, std::set<int>& visited) {
  if (!visited.insert(i).second) return;
  const Axes& axes = dimensions_[static_cast<size_t>(dimension)].axes;
  if (!Meets(used_[static_cast<size_t>(i)], axes)) {
    ValueOf(i);
    return;
  }
  for (int operand : At(i).operands) PrepareWithout(operand, dimension, visited);
  if (At(i).opcode == Opcode::kLoad) PrepareIndex(At(i).operands[0], dimension);
}

std::optional<Size> TileEmitter::StrideAlong(int index, int axis) const {
  const Instruction& instruction = At(index);
  if (!used_[static_cast<size_t>(index)].contains(axis)) return Size(0);
  if (instruction.opcode == Opcode::kAxis) return Size(1);
  if (instruction.operands.size() != 2) return std::nullopt;
  const int left = instruction.operands[0];
  const int right = instruction.operands[1];
  const std::optional<Size> one = StrideAlong(left, axis);
  const std::optional<Size> other = StrideAlong(right, axis);
  if (!one.has_value() || !other.has_value()) return std::nullopt;
  if (instruction.opcode == Opcode::kAdd) return *one + *other;
  if (instruction.opcode == Opcode::kSubtract) return *one - *other;
  if (instruction.opcode != Opcode::kMultiply) return std::nullopt;
  const bool is_left = *other == Size(0);
  const Instruction& factor = At(is_left ? right : left);
  const Size& stride = is_left ? *one : *other;
  if (factor.opcode == Opcode::kConstant) return stride * Size(factor.integer);
  return factor.opcode == Opcode::kSize ? std::optional(stride * factor.size) : std::nullopt;
}

void TileEmitter::PrepareIndex(int index, int dimension) {
  const Axes& axes = dimensions_[static_cast<size_t>(dimension)].axes;
  if (axes.size() != 1) return;
  const std::optional<Size> stride = StrideAlong(index, axes[0]);
  // One that stays the same has its value before the loop.
  if (!stride.has_value() || *stride == Size(0)) return;
  OpenScope();
  scopes_.back().positions[axes[0]] = {LanesOf(dimension), {dimension}};
  const Tile start = ValueOf(index);
  CloseScope();
  scopes_.back().starts[index] = {start, dimension, *stride};
}

std::vector<int64_t> TileEmitter::ShapeOf(const std::vector<int>& dimensions) const {
  std::vector<int64_t> shape;
  for (int dimension : dimensions) {
    shape.push_back(dimensions_[static_cast<size_t>(dimension)].extent);
  }
  return shape;
}

Value TileEmitter::Expanded(const Tile& tile, const std::vector<int>& dimensions) {
  if (tile.dimensions == dimensions) return tile.value;
  if (tile.dimensions.empty()) return ir_.Splat(tile.value, ShapeOf(dimensions));
  Value value = tile.value;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (std::ranges::count(tile.dimensions, dimensions[i]) == 0) {
      value = ir_.ExpandDims(value, static_cast<int>(i));
    }
  }
  return ir_.Broadcast(value, ShapeOf(dimensions));
}

Tile TileEmitter::Compute(int i) {
  const Instruction& instruction = At(i);
  switch (instruction.opcode) {
    case Opcode::kConstant:
      return {scalars_.Constant(instruction), {}};
    case Opcode::kSize:
      return {SizeOf(instruction.size), {}};
    case Opcode::kAxis:
      for (size_t depth = scopes_.size(); depth-- > 0;) {
        const auto found = scopes_[depth].positions.find(instruction.axis);
        if (found != scopes_[depth].positions.end()) return found->second;
      }
      return {};
    case Opcode::kLoad:
      return Load(instruction);
    default:
      break;
  }
  std::vector<Tile> tiles;
  for (int operand : instruction.operands) tiles.push_back(ValueOf(operand));
  Align(tiles);
  std::vector<Value> operands;
  for (const Tile& tile : tiles) operands.push_back(tile.value);
  const DType from = At(instruction.operands.back()).type;
  return {scalars_.Compute(instruction, from, operands), tiles[0].dimensions};
}

Tile TileEmitter::Pointers(const Instruction& access) {
  Value base = buffers_[static_cast<size_t>(access.buffer)];
  Tile index;
  if (const Start* start = StartOf(access.operands[0])) {
    index = start->index;
    const Value turn =
        ir_.Binary("arith.muli", scopes_.back().firsts.at(start->dimension), SizeOf(start->stride));
    base = ir_.AddPointer(base, turn);
  } else {
    index = ValueOf(access.operands[0]);
  }
  return {ir_.AddPointer(Expanded({base, {}}, index.dimensions), index.value), index.dimensions};
}

std::optional<Value> TileEmitter::MaskFor(const std::vector<int>& dimensions,
                                          std::optional<Tile> guard) {
  std::optional<Value> mask;
  if (guard.has_value()) mask = Expanded(*guard, dimensions);
  for (int dimension : dimensions) {
    const std::optional<Value> within = MaskOf(dimension);
    if (!within.has_value()) continue;
    const Value expanded = Expanded({*within, {dimension}}, dimensions);
    mask = mask.has_value() ? ir_.Binary("arith.andi", *mask, expanded) : expanded;
  }
  return mask;
}

// Gives all the dimensions of any.
void TileEmitter::Align(std::vector<Tile>& tiles) {
  std::set<int> all;
  for (const Tile& tile : tiles) all.insert(tile.dimensions.begin(), tile.dimensions.end());
  const std::vector<int> dimensions(all.begin(), all.end());
  for (Tile& tile : tiles) tile = {Expanded(tile, dimensions), dimensions};
}

Tile TileEmitter::Load(const Instruction& load, std::optional<Scalar> as) {
  Tile pointers = Pointers(load);
  std::optional<Tile> guard;
  if (load.operands.size() > 1) {
    std::vector<Tile> both = {pointers, ValueOf(load.operands[1])};
    Align(both);
    pointers = both[0];
    guard = both[1];
  }
  if (as.has_value()) pointers.value = ir_.BitCastPointer(pointers.value, *as);
  const std::optional<Value> mask = MaskFor(pointers.dimensions, guard);
  const Type type = ir_.TypeOf(pointers.value).WithScalar(as.value_or(MemoryScalar(load.type)));
  Value loaded;
  if (mask.has_value()) {
    const Value zero = type.IsFloat() ? ir_.Float(type, 0) : ir_.Integer(type, 0);
    loaded = ir_.Load(pointers.value, *mask, zero);
  } else {
    loaded = ir_.Load(pointers.value);
  }
  return {scalars_.FromMemory(load.type, loaded), pointers.dimensions};
}

void TileEmitter::Store(int instruction) {
  const Instruction& store = At(instruction);
  std::vector<Tile> tiles = {Pointers(store)};
  for (size_t i = 1; i < store.operands.size(); ++i) tiles.push_back(ValueOf(store.operands[i]));
  Align(tiles);
  const std::optional<Value> mask =
      MaskFor(tiles[0].dimensions, tiles.size() > 2 ? std::optional(tiles[2]) : std::nullopt);
  ir_.Store(tiles[0].value, scalars_.ToMemory(store.type, tiles[1].value), mask);
}

Value TileEmitter::FactorOf(int instruction, const Factors& factors,
                            const std::vector<int>& dimensions, int depth) {
  const Instruction& factor = At(instruction);
  const bool is_fp8 = IsFp8(factors.type);
  const Scalar scalar = ScalarOf(factors.type);
  const bool is_load = factor.opcode == Opcode::kLoad;
  Tile tile;
  if (is_fp8 && is_load) {
    // As floats from memory on, so that they go to the matrix unit as they are.
    tile = Load(factor, scalar);
  } else {
    tile = ValueOf(instruction);
    tile.value = scalars_.Cast(factor.type, factors.type, tile.value);
    if (is_fp8) tile.value = ir_.Cast("tt.bitcast", tile.value, scalar);
  }
  const Value value = Expanded(tile, dimensions);
  const std::optional<Value> mask = MaskOf(depth);
  // A load gives 0 where it is masked; what is computed from it may be anything.
  const bool is_masked = is_load && std::ranges::count(tile.dimensions, depth) > 0;
  if (!mask.has_value() || is_masked) return value;
  const Type type{scalar, ShapeOf(dimensions)};
  const Value zero = type.IsFloat() ? ir_.Float(type, 0) : ir_.Integer(type, 0);
  return ir_.Select(Expanded({*mask, {depth}}, dimensions), value, zero);
}

}  // namespace kiln::graph::triton
