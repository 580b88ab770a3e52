// How large the tiles are that one Triton program multiplies: rows of section_types.h, for sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// Blocks of a grid along its second and third dimension.
inline constexpr int64_t kMostBlocks = 65535;

struct TileSizes {
  int64_t rows = 16;
  int64_t columns = 16;
  int64_t depth = 16;
  int warps = 4;
  int stages = 3;  // tiles of factors that are under way at once
};

int64_t PowerOfTwo(int64_t at_least);

struct ProductSizes {
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t depth = 1;
  DType factor = DType::kF16;
};

// The largest tiles of the table that fit, and leave a program for each core.
TileSizes TilesOfProduct(const ProductSizes& sizes, const EmitOptions& options);

struct AttentionTiles {
  int64_t queries = 16;
  int64_t keys = 16;
  int64_t width = 16;    // of a head of queries and keys: all of it
  int64_t columns = 16;  // of a head of values: all of it
  int warps = 4;
  int stages = 2;
  bool adds_apart = false;  // as AttentionTilesMax has it
};

struct AttentionSizes {
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t width = 1;
  int64_t columns = 1;
  DType scores = DType::kF16;  // the type of the factors
  DType values = DType::kF16;
};

// REQUIRES: heads have at most kWidestHead columns.
AttentionTiles TilesOfAttention(const AttentionSizes& sizes, const EmitOptions& options);

}  // namespace kiln::graph::triton
