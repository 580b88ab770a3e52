#include "client/graph/emit/triton/block_sizes.h"

#include <algorithm>

#include "client/graph/emit/triton/tile_sizes.h"

namespace kiln::graph::triton {
namespace {

constexpr int64_t kMaxBlock = 4096;
constexpr int64_t kMaxLoopColumns = 1024;  // where a loop goes over more than kMaxBlock positions
constexpr int64_t kUsualBlock = 1024;
constexpr int64_t kNeighbours = 32;  // in memory: elements of each row or column of a wide block
constexpr int64_t kElementsPerWarp = 32 * 8;
constexpr int kMaxWarps = 8;
constexpr int64_t kWantedPrograms = 256;  // about two for each core of a large GPU

}  // namespace

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
  if (is_wide) return std::min(PowerOfTwo(std::min(typical, kMaxBlock)), kNeighbours);
  return typical <= kMaxBlock ? PowerOfTwo(typical) : kMaxLoopColumns;
}

BlockSizes BlockSizesFor(const Size& outer_positions, int64_t columns,
                         const std::vector<Symbol>& symbols, bool is_wide) {
  const int64_t outer = TypicalOf(outer_positions, symbols);
  const int64_t spread = PowerOfTwo((outer + kWantedPrograms - 1) / kWantedPrograms);
  const int64_t room = std::max<int64_t>(kUsualBlock / columns, 1);
  // Fewer elements than threads of a warp would idle most of it.
  const int64_t wanted = is_wide ? kNeighbours : std::max<int64_t>(32 / columns, 1);
  const int64_t least = std::min({wanted, PowerOfTwo(std::min(outer, kNeighbours)), room});
  BlockSizes sizes;
  sizes.rows = std::clamp(spread, least, room);
  const int64_t warps = PowerOfTwo(sizes.rows * columns / kElementsPerWarp);
  sizes.warps = static_cast<int>(std::clamp<int64_t>(warps, 1, kMaxWarps));
  return sizes;
}

}  // namespace kiln::graph::triton
