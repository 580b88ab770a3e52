#include "client/graph/run/observed_shapes.h"

#include <algorithm>
#include <numeric>

namespace kiln::graph {
namespace {

// The largest multiple that a kernel makes anything of: a tile's.
constexpr int64_t kDivisorMax = 128;

void Count(ObservedSymbol& symbol, int64_t size) {
  const std::span known(symbol.sizes.data(), symbol.size_count);
  auto place = std::ranges::find(known, size, &ObservedSize::size);
  if (place == known.end() && symbol.size_count < symbol.sizes.size()) {
    symbol.sizes[symbol.size_count++] = {size, 1};
    return;
  }
  if (place == known.end()) {
    place = std::ranges::min_element(known, {}, &ObservedSize::executions);
    place->size = size;
  }
  ++place->executions;
}

}  // namespace

Symbol RangeOf(const ObservedSymbol& observed, const Symbol& whole) {
  if (observed.executions == 0) return whole;
  Symbol range{.name = whole.name, .min = observed.min, .max = std::max<int64_t>(observed.max, 1)};
  const std::span known(observed.sizes.data(), observed.size_count);
  range.typical = std::ranges::max_element(known, {}, &ObservedSize::executions)->size;
  if (observed.divisor > 0) range.multiple_of = std::gcd(observed.divisor, kDivisorMax);
  return range;
}

void ObservedShapes::Add(std::span<const int64_t> sizes) {
  if (sizes.size() != symbols_.size()) return;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) continue;
    ObservedSymbol& symbol = symbols_[i];
    symbol.min = symbol.executions == 0 ? sizes[i] : std::min(symbol.min, sizes[i]);
    symbol.max = std::max(symbol.max, sizes[i]);
    symbol.divisor = std::gcd(symbol.divisor, sizes[i]);
    ++symbol.executions;
    Count(symbol, sizes[i]);
  }
}

std::vector<ObservedSymbol> ObservedShapes::Get() const {
  const std::lock_guard lock(mutex_);
  return symbols_;
}

}  // namespace kiln::graph
