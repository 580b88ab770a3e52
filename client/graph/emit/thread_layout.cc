#include "client/graph/emit/thread_layout.h"

#include <algorithm>
#include <bit>
#include <set>

namespace kiln::graph {
namespace {

bool IsMemory(const Instruction& instruction) {
  return instruction.opcode == Opcode::kLoad || instruction.opcode == Opcode::kStore;
}

int64_t BytesOf(const Instruction& access) { return FactsOf(access.type).bits / 8; }

Size OuterPositions(const LoopProgram& program) {
  Size positions = 1;
  for (const Axis& axis : program.axes) {
    if (!axis.is_inner) positions *= axis.extent;
  }
  return positions;
}

class LayoutChoice {
 public:
  explicit LayoutChoice(const LoopProgram& program)
      : program_(program), indexes_(LinearIndexesOf(program)), last_(LastOuterAxis(program)) {}

  ThreadLayout ForElements(int elements_max) const {
    ThreadLayout layout;
    if (last_ < 0) return layout;
    int64_t widest = 1;
    for (const Instruction& instruction : program_.instructions) {
      if (IsMemory(instruction) && WalksAlongLast(instruction)) {
        widest = std::max(widest, BytesOf(instruction));
      }
    }
    const auto elements =
        static_cast<int>(std::min<int64_t>(elements_max, kThreads.wide_bytes / widest));
    const Size& row = program_.axes[static_cast<size_t>(last_)].extent;
    const bool has_whole_rows = IsMultiple(row, elements);
    for (const Instruction& instruction : program_.instructions) {
      layout.is_wide.push_back(IsWide(instruction, elements, has_whole_rows));
    }
    if (elements == 1 || std::ranges::count(layout.is_wide, true) == 0) return {};
    layout.elements = elements;
    if (has_whole_rows) layout.group_axis = last_;
    layout.has_tail = !IsMultiple(OuterPositions(program_), elements);
    return layout;
  }

  ThreadLayout ForLoops() const {
    ThreadLayout layout;
    const int64_t longest = LongestLoop();
    if (longest < kThreads.shared_loop_min || HasOrderedWrites()) return layout;
    const int64_t positions = TypicalOf(OuterPositions(program_), program_.symbols);
    if (positions >= kThreads.many_positions && LoopsWalkAlongLast()) return layout;
    const auto threads =
        std::bit_floor(static_cast<uint64_t>(longest / kThreads.loop_positions_per_thread));
    layout.threads = static_cast<int>(std::clamp(
        static_cast<int64_t>(threads), kThreads.shared_loop_min, kThreads.shared_threads_max));
    layout.shares_positions = true;
    return layout;
  }

 private:
  bool IsMultiple(const Size& size, int64_t of) const {
    return size.MultipleOf(program_.symbols) % of == 0;
  }

  const std::optional<LinearIndex>& IndexOf(const Instruction& access) const {
    return indexes_[static_cast<size_t>(access.operands[0])];
  }

  bool WalksAlongLast(const Instruction& access) const {
    const auto& index = IndexOf(access);
    return index.has_value() && index->strides[static_cast<size_t>(last_)] == Size(1);
  }

  bool IsWide(const Instruction& access, int64_t elements, bool has_whole_rows) const {
    if (!IsMemory(access) || !WalksAlongLast(access)) return false;
    const bool is_masked = access.operands.size() > (access.opcode == Opcode::kLoad ? 1 : 2);
    const int64_t alignment = program_.buffers[static_cast<size_t>(access.buffer)].alignment;
    if (is_masked || access.store != StoreKind::kPlain) return false;
    if (alignment % (elements * BytesOf(access)) != 0) return false;
    const LinearIndex& index = *IndexOf(access);
    if (IsDense(index, program_)) return true;
    if (!has_whole_rows || !IsMultiple(index.offset, elements)) return false;
    for (size_t axis = 0; axis < index.strides.size(); ++axis) {
      if (static_cast<int>(axis) == last_) continue;
      if (!IsMultiple(index.strides[axis], elements)) return false;
    }
    return true;
  }

  // Counts loops that are in no other loop.
  int64_t LongestLoop() const {
    const std::vector<std::vector<int>> inner = InnerAxesOf(program_);
    int64_t longest = 0;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const bool reduces = instruction.opcode == Opcode::kReduce && inner[i].empty();
      if (!reduces && instruction.opcode != Opcode::kStore) continue;
      Size positions = 1;
      for (const int axis : reduces ? instruction.axes : inner[i]) {
        positions *= program_.axes[static_cast<size_t>(axis)].extent;
      }
      longest = std::max(longest, TypicalOf(positions, program_.symbols));
    }
    return longest;
  }

  // Whether an element may be read before it is written, or written twice.
  bool HasOrderedWrites() const {
    std::set<int> written;
    for (const Instruction& instruction : program_.instructions) {
      const int buffer = instruction.buffer;
      if (!IsMemory(instruction) || !program_.buffers[static_cast<size_t>(buffer)].is_written) {
        continue;
      }
      if (instruction.opcode == Opcode::kLoad || !written.insert(buffer).second) return true;
      if (instruction.store == StoreKind::kPlain && !IndexOf(instruction).has_value()) return true;
    }
    return false;
  }

  bool LoopsWalkAlongLast() const {
    if (last_ < 0) return false;
    const std::vector<std::vector<int>> inner = InnerAxesOf(program_);
    return std::ranges::any_of(program_.instructions, [&](const Instruction& instruction) {
      return IsMemory(instruction) && WalksAlongLast(instruction) &&
             !inner[static_cast<size_t>(instruction.operands[0])].empty();
    });
  }

  const LoopProgram& program_;
  const std::vector<std::optional<LinearIndex>> indexes_;
  const int last_;
};

}  // namespace

bool IsDense(const LinearIndex& index, const LoopProgram& program) {
  if (index.offset != Size(0)) return false;
  Size stride = 1;
  for (size_t axis = program.axes.size(); axis-- > 0;) {
    if (program.axes[axis].is_inner || program.axes[axis].extent == Size(1)) continue;
    if (index.strides[axis] != stride) return false;
    stride *= program.axes[axis].extent;
  }
  return true;
}

ThreadLayout LayoutFor(const LoopProgram& program, int elements_max) {
  const LayoutChoice choice(program);
  const bool has_loops = std::ranges::any_of(program.axes, &Axis::is_inner);
  return has_loops ? choice.ForLoops() : choice.ForElements(elements_max);
}

}  // namespace kiln::graph
