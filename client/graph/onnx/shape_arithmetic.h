// Operators on two sizes, as models compute shapes by. Nothing where the result is no polynomial.
#pragma once

#include <optional>

#include "client/graph/program/size.h"

namespace kiln::graph {

Size NegatedSize(const Size& size);
Size IsFalse(const Size& truth);  // of 0 or 1
std::optional<Size> SizesAdded(const Size& one, const Size& other);
std::optional<Size> SizesSubtracted(const Size& one, const Size& other);
std::optional<Size> SizesMultiplied(const Size& one, const Size& other);
std::optional<Size> SizesDivided(const Size& one, const Size& other);
std::optional<Size> RemainderOfSizes(const Size& one, const Size& other);
std::optional<Size> BothHold(const Size& one, const Size& other);
std::optional<Size> SizesCompared(const Size& one, const Size& other);
std::optional<Size> SmallerSize(const Size& one, const Size& other);
std::optional<Size> LargerSize(const Size& one, const Size& other);

}  // namespace kiln::graph
