// How the threads of a kernel in CUDA C++, OpenCL C or PTX share the positions of a program.
#pragma once

#include <vector>

#include "client/graph/emit/linear_index.h"
#include "client/graph/program/loop_program.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph {

// | program | a position of the outer axes has | elements |
// |---|---|---|
// | without inner axes | a thread | 16 bytes of the widest neighbours, `elements_max` at most |
// | loops of under 32 positions | a thread | 1 |
// | an element may be read and written, or written twice | a thread | 1 |
// | loops walk along the last outer axis in memory, and outer positions fill a GPU | a thread | 1 |
// | other loops | a block of threads, one for each 8 positions of the longest loop | 1 |
struct ThreadLayout {
  int threads = kThreads.threads;  // of a block
  // All threads of a block have one position of the outer axes together. They share its loops.
  bool shares_positions = false;
  // Positions that a thread takes one after the other. Threads take whole groups of them, but for
  // the last one, if `has_tail`.
  int elements = 1;
  bool has_tail = false;
  // The positions of a group differ on this axis alone, by 0, 1, 2 …; -1: they may cross rows.
  int group_axis = -1;
  // By instruction, with elements > 1: a load or store of elements that are neighbours in memory,
  // from an aligned address on.
  std::vector<bool> is_wide;
};

ThreadLayout LayoutFor(const LoopProgram& program, int elements_max);

// Whether the index numbers the positions of the outer axes in row-major order.
bool IsDense(const LinearIndex& index, const LoopProgram& program);

}  // namespace kiln::graph
