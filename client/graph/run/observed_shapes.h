// Which sizes of symbols an engine has asked for, and the ranges that hold them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "client/graph/program/size.h"

namespace kiln::graph {

// Sizes of a symbol that are told apart.
inline constexpr size_t kObservedSizesMax = 32;

struct ObservedSize {
  int64_t size = 0;
  uint64_t executions = 0;
};

struct ObservedSymbol {
  uint64_t executions = 0;
  int64_t min = 0;
  int64_t max = 0;
  int64_t divisor = 0;  // the largest number that every size is a multiple of
  // The most frequent sizes. With more than there is room for, a new size takes the place of the
  // rarest and inherits its count. (Metwally, Agrawal, El Abbadi: Space-Saving, 2005.)
  std::array<ObservedSize, kObservedSizesMax> sizes = {};
  size_t size_count = 0;
};

// The smallest range that holds what was observed; `whole` where nothing was. Typical is the most
// frequent size. Of the divisor the powers of two are taken: no other number makes other code.
Symbol RangeOf(const ObservedSymbol& observed, const Symbol& whole);

// Thread-safe. Add allocates nothing.
class ObservedShapes {
 public:
  explicit ObservedShapes(size_t symbols) : symbols_(symbols) {}

  // A size for each symbol. What is negative is passed over.
  void Add(std::span<const int64_t> sizes);
  std::vector<ObservedSymbol> Get() const;

 private:
  mutable std::mutex mutex_;
  std::vector<ObservedSymbol> symbols_;
};

}  // namespace kiln::graph
