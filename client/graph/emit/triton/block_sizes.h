// How many positions one Triton program takes at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// The largest that the size can become, or nothing where that is not known.
std::optional<int64_t> LargestOf(const Size& size, const std::vector<Symbol>& symbols);

struct BlockSizes {
  int64_t rows = 1;  // outer positions
  int warps = 4;
};

// Columns for a loop over this many inner positions: all at once, if they are few.
// `is_wide`: rows are neighbours in memory, and columns are not.
int64_t ColumnsFor(const Size& positions, const std::vector<Symbol>& symbols, bool is_wide);
// `columns` is the largest of all loops. Rows fill the block up, but leave programs for every core.
BlockSizes BlockSizesFor(const Size& outer_positions, int64_t columns,
                         const std::vector<Symbol>& symbols, bool is_wide);

}  // namespace kiln::graph::triton
