// Symbols at run time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/graph/program/size.h"

namespace kiln::graph {

// INVALID_ARGUMENT names the symbol that lies outside of its range, and the range. Allocates
// nothing where all is well.
[[nodiscard]] absl::Status CheckSymbols(const std::vector<Symbol>& symbols,
                                        std::span<const int64_t> sizes);

}  // namespace kiln::graph
