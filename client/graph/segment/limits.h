// Limits of what an engine hands over.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::graph {

inline constexpr size_t kSegmentBytesMax = size_t{1} << 30;  // of the JSON, constants included
inline constexpr size_t kOperationsMax = 100'000;
inline constexpr size_t kValuesMax = 400'000;
inline constexpr size_t kSymbolsMax = 64;
inline constexpr size_t kDimensionsMax = 16;
inline constexpr size_t kOperandsMax = 1'024;  // inputs or outputs of an operation
inline constexpr size_t kAttributesMax = 64;
inline constexpr size_t kNameBytesMax = 1'024;
inline constexpr int64_t kElementsMax = int64_t{1} << 48;  // of a value

}  // namespace kiln::graph
