// Inputs whose elements are small integers that do not repeat within a row.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {

// Element i is 7 i mod 11, from `least` on.
inline OperationTensor Numbered(const std::vector<int64_t>& shape, double least = -5,
                                DType type = DType::kF32) {
  OperationTensor tensor{{shape.begin(), shape.end()}, {}, type};
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    tensor.elements.push_back(static_cast<double>(i * 7 % 11) + least);
  }
  return tensor;
}

}  // namespace kiln::graph
