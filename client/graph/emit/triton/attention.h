// Attention in LoopPrograms: a softmax over the scores of keys, times values.
#pragma once

#include <optional>

#include "client/graph/emit/triton/product.h"

namespace kiln::graph::triton {

// weight = exp(score - largest), where `score` is computed from `products`, the sums of queries
// times keys; the result from `weighted`, the sum of weights times values, and `total`, the sum of
// weights.
struct Attention {
  int products = 0;
  Factors scores;  // queries, keys
  int score = 0;
  int largest = 0;
  int total = 0;
  int weighted = 0;
  Factors values;  // weights, values
  Axes batch;
  Axes queries;
  Axes width;  // of queries and keys
  Axes keys;
  Axes columns;  // of values
  // key <= query, where every other score is -infinity.
  std::optional<int> is_before;
  // Where scores are products times a number above 0, and -infinity where they are masked: that
  // multiplication, and the number.
  std::optional<int> scaled;
  int scale = 0;
};

// Nothing where the program has other reductions, or a head is wider than a tile can be.
std::optional<Attention> FindAttention(const LoopProgram& program, const EmitOptions& options);

}  // namespace kiln::graph::triton
