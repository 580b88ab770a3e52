// Sizes as text: what Size::ToString prints.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/program/size.h"

namespace kiln::graph {

// "4*batch*heads + 1". INVALID_ARGUMENT: it is no sum of products of integers and symbols, names an
// unknown symbol, or overflows.
[[nodiscard]] absl::StatusOr<Size> ParseSize(std::string_view text,
                                             const std::vector<Symbol>& symbols);
// Whether it can be the name of a symbol: [A-Za-z_][A-Za-z0-9_]*.
bool IsSymbolName(std::string_view text);

}  // namespace kiln::graph
