#include "client/graph/emit/triton/index_arithmetic.h"

#include <algorithm>
#include <optional>

namespace kiln::graph::triton {

Value SizeValue(IrBuilder& ir, const Size& size, const std::vector<Value>& symbols) {
  std::optional<Value> sum;
  for (const Size::Term& term : size.terms()) {
    Value product = ir.Integer(kIndex, term.factor);
    for (size_t i = 0; i < term.symbols.size(); ++i) {
      const Value symbol = symbols[static_cast<size_t>(term.symbols[i])];
      product = i == 0 && term.factor == 1 ? symbol : ir.Binary("arith.muli", product, symbol);
    }
    sum = sum.has_value() ? ir.Binary("arith.addi", *sum, product) : product;
  }
  return sum.has_value() ? *sum : ir.Integer(kIndex, 0);
}

std::vector<Value> SplitPosition(IrBuilder& ir, const std::vector<Size>& extents, Value flat,
                                 bool is_narrow, const std::vector<Value>& symbols) {
  const Type type = ir.TypeOf(flat);
  const auto narrow = [&](Value value) {
    return is_narrow ? ir.Cast("arith.trunci", value, Scalar::kI32) : value;
  };
  const auto widen = [&](Value value) {
    return is_narrow ? ir.Cast("arith.extsi", value, Scalar::kI64) : value;
  };
  std::vector<Value> positions(extents.size());
  Value rest = flat;
  bool is_whole = true;  // `rest` is `flat` still, as an i64
  for (size_t i = extents.size(); i-- > 0;) {
    if (extents[i] == Size(1)) {
      positions[i] = ir.Integer(type, 0);
      continue;
    }
    const bool is_last =
        std::all_of(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(i),
                    [](const Size& extent) { return extent == Size(1); });
    if (is_last) {
      positions[i] = is_whole ? rest : widen(rest);
      continue;
    }
    if (is_whole) rest = narrow(rest);
    is_whole = false;
    // No position of an empty axis is computed, but nothing may divide by zero.
    const Size divides = extents[i] == Size(0) ? Size(1) : extents[i];
    Value divisor = narrow(SizeValue(ir, divides, symbols));
    if (type.IsTensor()) divisor = ir.Splat(divisor, type.shape);
    positions[i] = widen(ir.Binary("arith.remui", rest, divisor));
    rest = ir.Binary("arith.divui", rest, divisor);
  }
  return positions;
}

}  // namespace kiln::graph::triton
