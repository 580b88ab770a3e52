#include "client/graph/run/symbol_ranges.h"

#include <fmt/format.h>

namespace kiln::graph {

absl::Status CheckSymbols(const std::vector<Symbol>& symbols, std::span<const int64_t> sizes) {
  if (sizes.size() != symbols.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} sizes of symbols are given, there are {} symbols", sizes.size(), symbols.size()));
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Symbol& symbol = symbols[i];
    if (sizes[i] < symbol.min || sizes[i] > symbol.max) {
      return absl::InvalidArgumentError(fmt::format("symbol {} is {}: it is {} to {}", symbol.name,
                                                    sizes[i], symbol.min, symbol.max));
    }
    if (sizes[i] % symbol.multiple_of != 0) {
      return absl::InvalidArgumentError(fmt::format("symbol {} is {}: it is a multiple of {}",
                                                    symbol.name, sizes[i], symbol.multiple_of));
    }
  }
  return absl::OkStatus();
}

bool HoldsSizes(const std::vector<Symbol>& symbols, std::span<const int64_t> sizes) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Symbol& symbol = symbols[i];
    if (sizes[i] < symbol.min || sizes[i] > symbol.max) return false;
    if (sizes[i] % symbol.multiple_of != 0) return false;
  }
  return true;
}

}  // namespace kiln::graph
