#include "client/graph/emit/triton/block_sizes.h"

#include <algorithm>

#include "client/graph/emit/triton/tile_sizes.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph::triton {

std::optional<int64_t> LargestOf(const Size& size, const std::vector<Symbol>& symbols) {
  std::vector<int64_t> largest;
  for (const Symbol& symbol : symbols) largest.push_back(symbol.max);
  const bool grows = std::ranges::all_of(size.terms(), [](const Size::Term& term) {
    return term.factor >= 0 || term.symbols.empty();
  });
  return grows ? size.Evaluate(largest) : std::nullopt;
}

int64_t ColumnsFor(const Size& positions, const std::vector<Symbol>& symbols, bool is_wide) {
  const int64_t typical = TypicalOf(positions, symbols);
  if (is_wide)
    return std::min(PowerOfTwo(std::min(typical, kBlocks.elements_max)), kBlocks.neighbours);
  return typical <= kBlocks.elements_max ? PowerOfTwo(typical) : kBlocks.loop_columns_max;
}

BlockSizes BlockSizesFor(const Size& outer_positions, int64_t columns,
                         const std::vector<Symbol>& symbols, bool is_wide) {
  const int64_t outer = TypicalOf(outer_positions, symbols);
  const int64_t spread =
      PowerOfTwo((outer + kBlocks.programs_wanted - 1) / kBlocks.programs_wanted);
  const int64_t room = std::max<int64_t>(kBlocks.elements / columns, 1);
  // Fewer elements than threads of a warp would idle most of it.
  const int64_t wanted = is_wide ? kBlocks.neighbours : std::max<int64_t>(32 / columns, 1);
  const int64_t least = std::min({wanted, PowerOfTwo(std::min(outer, kBlocks.neighbours)), room});
  BlockSizes sizes;
  sizes.rows = std::clamp(spread, least, room);
  const int64_t warps = PowerOfTwo(sizes.rows * columns / kBlocks.elements_per_warp);
  sizes.warps = static_cast<int>(std::clamp<int64_t>(warps, 1, kBlocks.warps_max));
  return sizes;
}

}  // namespace kiln::graph::triton
