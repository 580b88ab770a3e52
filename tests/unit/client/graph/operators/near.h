// Elements of floats, up to rounding.
#pragma once

#include <gmock/gmock.h>

#include <vector>

namespace kiln::graph {

inline auto AreNear(const std::vector<double>& expected) {
  return testing::Pointwise(testing::DoubleNear(1e-4), expected);
}

}  // namespace kiln::graph
