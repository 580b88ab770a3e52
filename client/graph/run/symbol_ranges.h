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

// Whether every size lies in its symbol's range. REQUIRES: as many sizes as symbols.
bool HoldsSizes(const std::vector<Symbol>& symbols, std::span<const int64_t> sizes);

}  // namespace kiln::graph
