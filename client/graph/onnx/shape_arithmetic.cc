#include "client/graph/onnx/shape_arithmetic.h"

#include <algorithm>
#include <cstdint>

#include "client/graph/operators/operands.h"

namespace kiln::graph {

Size NegatedSize(const Size& size) { return Size(0) - size; }
Size IsFalse(const Size& truth) { return Size(1) - truth; }
std::optional<Size> SizesAdded(const Size& one, const Size& other) { return one + other; }
std::optional<Size> SizesSubtracted(const Size& one, const Size& other) { return one - other; }
std::optional<Size> SizesMultiplied(const Size& one, const Size& other) { return one * other; }
std::optional<Size> SizesDivided(const Size& one, const Size& other) {
  const auto number = one.Constant();
  const auto divisor = other.Constant();
  if (!number || !divisor) return Quotient(one, other);
  if (*divisor == 0 || (*number == INT64_MIN && *divisor == -1)) return std::nullopt;
  return Size(*number / *divisor);
}
// Whether rounded down or towards zero makes no difference where nothing is negative.
std::optional<Size> RemainderOfSizes(const Size& one, const Size& other) {
  const int64_t number = one.Constant().value_or(-1);
  const int64_t divisor = other.Constant().value_or(0);
  return number < 0 || divisor <= 0 ? std::nullopt : std::optional(Size(number % divisor));
}
std::optional<Size> BothHold(const Size& one, const Size& other) {
  if (!one.Constant() || !other.Constant()) return std::nullopt;
  return Size(*one.Constant() != 0 && *other.Constant() != 0 ? 1 : 0);
}
std::optional<Size> SizesCompared(const Size& one, const Size& other) {
  if (one == other) return Size(1);
  return one.Constant() && other.Constant() ? std::optional(Size(0)) : std::nullopt;
}
std::optional<Size> SmallerSize(const Size& one, const Size& other) {
  if (!one.Constant() || !other.Constant()) return std::nullopt;
  return std::min(*one.Constant(), *other.Constant());
}
std::optional<Size> LargerSize(const Size& one, const Size& other) {
  if (!one.Constant() || !other.Constant()) return std::nullopt;
  return std::max(*one.Constant(), *other.Constant());
}

}  // namespace kiln::graph
