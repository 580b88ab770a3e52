#include <algorithm>

#include "client/graph/emit/triton/program_emitter.h"

namespace kiln::graph::triton {
namespace {

void Append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
}

Values Slice(const Values& values, size_t at, size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

// Whether no reduction of this frame has to be computed before.
bool ProgramEmitter::IsReady(int reduce) const {
  Visits visited;
  std::set<int> needed;
  CollectNeeded(At(reduce).operands[0], At(reduce).axes, visited, needed);
  return std::ranges::none_of(needed, [&](int i) { return IsReduce(i); });
}

// Reductions over the same axes that do not wait for each other share one loop.
std::vector<ProgramEmitter::Tally> ProgramEmitter::TalliesWith(int first,
                                                               const std::set<int>& needed) {
  std::vector<Tally> tallies;
  for (int i : needed) {
    const bool shares = i >= first && IsReduce(i) && At(i).axes == At(first).axes;
    if (!shares || Lookup(i) != nullptr || !IsReady(i)) continue;
    tallies.push_back({i, {ir_, scalars_, At(i).reduction, TypeOf(At(i).operands[0])}});
  }
  return tallies;
}

void ProgramEmitter::EmitReductions(int first, const std::set<int>& needed) {
  const Axes axes = At(first).axes;
  std::vector<Tally> tallies = TalliesWith(first, needed);
  std::vector<int> reduces;
  for (const Tally& tally : tallies) reduces.push_back(tally.reduce);
  for (int reduce : reduces) {
    Visits visited;
    std::set<int> before;
    CollectNeeded(At(reduce).operands[0], axes, visited, before);
    for (int other : before) frames_.back().values[other] = Compute(other);
  }
  const bool is_nested = frames_.size() > 1;
  const int64_t columns = is_nested ? Columns() : ColumnsOf(axes);
  const bool is_carried = is_nested || !IsOneBlock(axes);
  Values initial;
  for (Tally& tally : tallies) {
    if (!is_carried) break;
    Append(initial, tally.accumulator.Start(ShapeOf(sizes_.rows, columns)));
  }
  const Values totals = Loop(axes, initial, [&](const Values& carried) {
    EmitNeeded(reduces);
    Values combined;
    for (Tally& tally : tallies) {
      Values added = Added(tally, columns);
      if (is_carried) {
        added = tally.accumulator.Combine(Slice(carried, combined.size(), added.size()), added);
      }
      Append(combined, added);
    }
    return combined;
  });
  size_t at = 0;
  for (Tally& tally : tallies) {
    Values total = Slice(totals, at, tally.accumulator.NeedsPosition() ? 2 : 1);
    at += total.size();
    if (!is_nested && columns > 1) {
      total =
          ir_.Reduce(total, sizes_.rows > 1 ? 1 : 0, [&](const Values& left, const Values& right) {
            return tally.accumulator.Combine(left, right);
          });
    }
    frames_.back().values[tally.reduce] = {tally.accumulator.Result(total), sizes_.rows,
                                           is_nested ? columns : 1};
  }
}

// What this turn of the loop adds: nothing where the block has no positions.
Values ProgramEmitter::Added(Tally& tally, int64_t columns) {
  const Frame& frame = frames_.back();
  const auto expanded = [&](const Block& block) {
    return Expanded(ir_, block, sizes_.rows, columns).value;
  };
  const Value value = expanded(ValueOf(At(tally.reduce).operands[0]));
  Values added = tally.accumulator.Widen(value, expanded(frame.flat));
  if (!frame.mask.has_value()) return added;
  const Value mask = expanded(*frame.mask);
  const Values start = tally.accumulator.Start(ShapeOf(sizes_.rows, columns));
  for (size_t i = 0; i < added.size(); ++i) added[i] = ir_.Select(mask, added[i], start[i]);
  return added;
}

bool ProgramEmitter::IsOneBlock(const Axes& axes) const {
  const std::optional<int64_t> positions = PositionsOf(axes).Constant();
  return frames_.size() == 1 && positions.has_value() && *positions <= ColumnsOf(axes);
}

Values ProgramEmitter::Loop(const Axes& axes, const Values& initial, const LoopBody& body) {
  if (frames_.size() > 1) return LoopOverPositions(axes, initial, body);
  return IsOneBlock(axes) ? InOneBlock(axes, initial, body) : LoopOverBlocks(axes, initial, body);
}

Frame ProgramEmitter::FrameOfBlock(const Axes& axes, Value first, int64_t columns) {
  const Size positions = PositionsOf(axes);
  Frame frame;
  frame.axes = axes;
  frame.columns = columns;
  frame.flat = Positions(first, columns, false);
  if (positions.MultipleOf(program_.symbols) % columns != 0 || positions == Size(0)) {
    std::vector<Block> both = {frame.flat, {SizeValue(positions)}};
    Align(ir_, both);
    frame.mask = Block{ir_.Compare("slt", both[0].value, both[1].value), 1, columns};
  }
  const std::optional<int64_t> largest = LargestOf(positions, program_.symbols);
  Split(frame, axes, frame.flat, largest.has_value() && *largest < INT32_MAX - columns);
  return frame;
}

Values ProgramEmitter::InOneBlock(const Axes& axes, const Values& initial, const LoopBody& body) {
  auto found = block_frames_.find(axes);
  if (found == block_frames_.end()) {
    const int64_t columns = ColumnsOf(axes);
    found = block_frames_.emplace(axes, FrameOfBlock(axes, ir_.Integer(kIndex, 0), columns)).first;
  }
  frames_.push_back(std::move(found->second));
  Values results = body(initial);
  found->second = std::move(frames_.back());
  frames_.pop_back();
  return results;
}

Values ProgramEmitter::LoopOverBlocks(const Axes& axes, const Values& initial,
                                      const LoopBody& body) {
  const int64_t columns = ColumnsOf(axes);
  const Value end = SizeValue(PositionsOf(axes));
  const Value begin = ir_.Integer(kIndex, 0);
  return ir_.For(begin, end, ir_.Integer(kIndex, columns), initial,
                 [&](Value first, const Values& carried) {
                   frames_.push_back(FrameOfBlock(axes, first, columns));
                   Values yielded = body(carried);
                   frames_.pop_back();
                   return yielded;
                 });
}

Values ProgramEmitter::LoopOverPositions(const Axes& axes, const Values& initial,
                                         const LoopBody& body) {
  const Value end = SizeValue(PositionsOf(axes));
  const Value begin = ir_.Integer(kIndex, 0);
  return ir_.For(begin, end, ir_.Integer(kIndex, 1), initial,
                 [&](Value position, const Values& carried) {
                   Frame frame;
                   frame.axes = axes;
                   frame.flat = {position};
                   Split(frame, axes, frame.flat, false);
                   frames_.push_back(std::move(frame));
                   Values yielded = body(carried);
                   frames_.pop_back();
                   return yielded;
                 });
}

}  // namespace kiln::graph::triton
