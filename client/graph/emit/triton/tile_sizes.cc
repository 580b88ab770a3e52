#include "client/graph/emit/triton/tile_sizes.h"

#include <algorithm>
#include <bit>

#include "client/graph/sections/section_types.h"

namespace kiln::graph::triton {
namespace {

int64_t Blocks(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace

int64_t PowerOfTwo(int64_t at_least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(at_least, 1))));
}

TileSizes TilesOfProduct(const ProductSizes& sizes, const EmitOptions& options) {
  const int64_t rows = std::max(PowerOfTwo(sizes.rows), kSmallestTile);
  const int64_t columns = std::max(PowerOfTwo(sizes.columns), kSmallestTile);
  const int64_t element = FactsOf(sizes.factor).bits / 8;
  const int64_t least_depth = std::max<int64_t>(32 / element, kSmallestTile);
  const Generation generation = GenerationOf(options.backend, options.architecture);
  const bool has_unit = sizes.factor != DType::kF32 || options.fast_math;
  TileSizes tiles;
  for (const ProductTiles& row : AllProductTiles()) {
    if (!row.AreFor(generation, has_unit)) continue;
    if (row.rows > rows || row.columns > columns) continue;
    const int64_t depth =
        std::max(std::min(row.depth_bytes / element, PowerOfTwo(sizes.depth)), least_depth);
    tiles = {row.rows, row.columns, depth, row.warps, row.stages};
    const int64_t programs =
        sizes.batch * Blocks(sizes.rows, row.rows) * Blocks(sizes.columns, row.columns);
    if (programs >= kProgramsWanted) break;
  }
  return tiles;
}

AttentionTiles TilesOfAttention(const AttentionSizes& sizes, const EmitOptions& options) {
  AttentionTiles tiles;
  // 8-bit factors have a depth of 32 at least.
  tiles.width = std::max<int64_t>(PowerOfTwo(sizes.width), 32);
  tiles.columns = std::max(PowerOfTwo(sizes.columns), kSmallestTile);
  const int64_t head = std::max(tiles.width, tiles.columns);
  const Generation generation = GenerationOf(options.backend, options.architecture);
  const bool has_unit = sizes.scores != DType::kF32 && sizes.values != DType::kF32;
  const auto row = std::ranges::find_if(AllAttentionTiles(), [&](const AttentionTilesMax& each) {
    return each.AreFor(generation, has_unit) && head <= each.head_max;
  });
  tiles.queries = std::clamp(PowerOfTwo(sizes.queries), kSmallestTile, row->queries);
  tiles.keys = std::clamp<int64_t>(PowerOfTwo(sizes.keys), 32, row->keys);
  tiles.warps =
      static_cast<int>(std::clamp<int64_t>(tiles.queries / kQueriesPerWarp, 1, kAttentionWarpsMax));
  tiles.stages = row->stages;
  tiles.adds_apart = row->adds_apart;
  return tiles;
}

}  // namespace kiln::graph::triton
