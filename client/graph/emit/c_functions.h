// Functions that the printed text brings along: conversions of narrow floats, and atomic stores
// that a language lacks.
#pragma once

#include <string>
#include <string_view>

#include "client/graph/emit/c_dialect.h"
#include "client/graph/emit/c_expression.h"

namespace kiln::graph {

// "kiln_atomic_add_f16": of the function that AtomicStoreFunction prints.
std::string AtomicStoreName(StoreKind store, DType type);
std::string AtomicStoreFunction(const CDialect& dialect, StoreKind store, DType type);

// The conversions that the text calls, and those that they call.
std::string ConversionsOf(const CDialect& dialect, std::string_view text);

}  // namespace kiln::graph
