// What an instruction is for all positions that one Triton program computes at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "client/graph/emit/triton/ir_builder.h"

namespace kiln::graph::triton {

// Rows are outer positions, columns inner ones. 1 where the value is the same for all: then the
// tensor lacks that dimension, and with 1 for both it is a scalar.
struct Block {
  Value value;
  int64_t rows = 1;
  int64_t columns = 1;
};

inline std::vector<int64_t> ShapeOf(int64_t rows, int64_t columns) {
  std::vector<int64_t> shape;
  if (rows > 1) shape.push_back(rows);
  if (columns > 1) shape.push_back(columns);
  return shape;
}

// Repeats the block to a shape that has its own dimensions.
inline Block Expanded(IrBuilder& ir, const Block& block, int64_t rows, int64_t columns) {
  if (block.rows == rows && block.columns == columns) return block;
  const std::vector<int64_t> shape = ShapeOf(rows, columns);
  if (block.rows == 1 && block.columns == 1) return {ir.Splat(block.value, shape), rows, columns};
  const Value expanded = ir.ExpandDims(block.value, block.rows > 1 ? 1 : 0);
  return {ir.Broadcast(expanded, shape), rows, columns};
}

// Gives all blocks the smallest shape that has room for each.
inline void Align(IrBuilder& ir, std::vector<Block>& blocks, int64_t rows = 1,
                  int64_t columns = 1) {
  for (const Block& block : blocks) {
    rows = std::max(rows, block.rows);
    columns = std::max(columns, block.columns);
  }
  for (Block& block : blocks) block = Expanded(ir, block, rows, columns);
}

}  // namespace kiln::graph::triton
