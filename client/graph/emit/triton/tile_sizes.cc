#include "client/graph/emit/triton/tile_sizes.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace kiln::graph::triton {
namespace {

constexpr int64_t kCores = 100;  // of a large GPU, about
constexpr int64_t kSmallestTile = 16;

// From large to small. `depth` is in bytes of a factor. Shared memory has to hold
// (rows + columns) * depth * stages: 227 KiB from sm_90 on, 99 KiB from sm_80 on, 64 KiB of AMD's.
struct TileRow {
  int64_t rows;
  int64_t columns;
  int64_t depth;
  int warps;
  int stages;
};

constexpr TileRow kHopper[] = {
    {128, 256, 128, 8, 3}, {128, 128, 128, 4, 3}, {64, 128, 128, 4, 4}, {128, 64, 128, 4, 4}};
constexpr TileRow kAmpere[] = {{128, 128, 64, 4, 3}, {64, 128, 64, 4, 4}, {128, 64, 64, 4, 4}};
constexpr TileRow kAmd[] = {{128, 128, 128, 4, 2}, {64, 128, 128, 4, 2}, {128, 64, 128, 4, 2}};
// Factors of f32 that are not rounded have no matrix unit.
constexpr TileRow kWholeF32[] = {{64, 64, 64, 8, 3}};
constexpr TileRow kSmall[] = {{64, 64, 128, 4, 3}, {32, 64, 128, 4, 4}, {64, 32, 128, 4, 4},
                              {32, 32, 128, 2, 4}, {16, 64, 128, 2, 4}, {64, 16, 128, 2, 4},
                              {16, 32, 128, 1, 4}, {32, 16, 128, 1, 4}, {16, 16, 128, 1, 4}};

std::vector<TileRow> TableFor(DType factor, const EmitOptions& options) {
  std::vector<TileRow> table;
  const auto add = [&](const auto& rows) {
    table.insert(table.end(), std::begin(rows), std::end(rows));
  };
  if (factor == DType::kF32 && !options.fast_math) {
    add(kWholeF32);
  } else if (options.backend == "hip") {
    add(kAmd);
  } else if (ArchitectureNumber(options) >= 90 && ArchitectureNumber(options) < 120) {
    add(kHopper);
  } else {
    add(kAmpere);
  }
  add(kSmall);
  return table;
}

int64_t Blocks(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace

int64_t PowerOfTwo(int64_t at_least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(at_least, 1))));
}

int ArchitectureNumber(const EmitOptions& options) {
  const std::string& text = options.architecture;
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

TileSizes TilesOfProduct(const ProductSizes& sizes, const EmitOptions& options) {
  const int64_t rows = std::max(PowerOfTwo(sizes.rows), kSmallestTile);
  const int64_t columns = std::max(PowerOfTwo(sizes.columns), kSmallestTile);
  const int64_t element = FactsOf(sizes.factor).bits / 8;
  const int64_t least_depth = std::max<int64_t>(32 / element, kSmallestTile);
  TileSizes tiles;
  for (const TileRow& row : TableFor(sizes.factor, options)) {
    if (row.rows > rows || row.columns > columns) continue;
    const int64_t depth =
        std::max(std::min(row.depth / element, PowerOfTwo(sizes.depth)), least_depth);
    tiles = {row.rows, row.columns, depth, row.warps, row.stages};
    const int64_t programs =
        sizes.batch * Blocks(sizes.rows, row.rows) * Blocks(sizes.columns, row.columns);
    if (programs >= kCores) break;
  }
  return tiles;
}

AttentionTiles TilesOfAttention(const AttentionSizes& sizes, const EmitOptions& options) {
  AttentionTiles tiles;
  // 8-bit factors have a depth of 32 at least.
  tiles.width = std::max<int64_t>(PowerOfTwo(sizes.width), 32);
  tiles.columns = std::max(PowerOfTwo(sizes.columns), kSmallestTile);
  const int64_t head = std::max(tiles.width, tiles.columns);
  const bool is_f32 = sizes.scores == DType::kF32 || sizes.values == DType::kF32;
  const bool is_before_hopper = options.backend == "hip" || ArchitectureNumber(options) < 90;
  const int64_t queries = is_f32 ? 32 : is_before_hopper && head <= 128 ? 128 : 64;
  const int64_t keys = is_f32 || head > 128 ? 32 : 64;
  tiles.queries = std::clamp(PowerOfTwo(sizes.queries), kSmallestTile, queries);
  tiles.keys = std::clamp<int64_t>(PowerOfTwo(sizes.keys), 32, keys);
  // A warp has 16 queries, so that rows are reduced within it.
  tiles.warps = static_cast<int>(std::clamp<int64_t>(tiles.queries / 16, 1, 8));
  tiles.stages = is_f32 || options.backend == "hip" ? 1 : is_before_hopper || head > 128 ? 2 : 3;
  tiles.adds_apart =
      !is_f32 && !is_before_hopper && ArchitectureNumber(options) < 100 && head <= 128;
  return tiles;
}

}  // namespace kiln::graph::triton
