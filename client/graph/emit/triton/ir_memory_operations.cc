// The operations of IrBuilder that have pointers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "client/graph/emit/triton/ir_builder.h"

namespace kiln::graph::triton {

Value IrBuilder::AddPointer(Value pointer, Value offset) {
  if (!CanUse("tt.addptr", {pointer, offset})) return {};
  const Type type = TypeOf(pointer);
  const Type by = TypeOf(offset);
  if (!type.is_pointer || !by.IsInteger() || by.shape != type.shape || BitsOf(by.scalar) < 32) {
    return Fail("tt.addptr", fmt::format("{} by {}", type, by));
  }
  return Write("tt.addptr", fmt::format("{} : {}, {}", Names({pointer, offset}), type, by), type);
}

bool IrBuilder::FitsMask(std::string_view operation, const Type& mask, const Type& type) {
  if (mask.is_pointer || mask.scalar != Scalar::kI1 || mask.shape != type.shape) {
    Fail(operation, fmt::format("mask {} for {}", mask, type));
  }
  return status_.ok();
}

Value IrBuilder::Load(Value pointer) {
  if (!CanUse("tt.load", {pointer})) return {};
  const Type type = TypeOf(pointer);
  if (!type.is_pointer) return Fail("tt.load", fmt::format("{} is no pointer", type));
  return Write("tt.load", fmt::format("{} : {}", Name(pointer), type),
               type.WithScalar(type.scalar));
}

Value IrBuilder::Load(Value pointer, Value mask, Value other) {
  if (!CanUse("tt.load", {pointer, mask, other})) return {};
  const Type type = TypeOf(pointer);
  const Type result = type.WithScalar(type.scalar);
  if (!FitsMask("tt.load", TypeOf(mask), type)) return {};
  if (!type.is_pointer || TypeOf(other) != result) {
    return Fail("tt.load", fmt::format("{} from {}", TypeOf(other), type));
  }
  return Write("tt.load", fmt::format("{} : {}", Names({pointer, mask, other}), type), result);
}

void IrBuilder::Store(Value pointer, Value value, std::optional<Value> mask) {
  Values operands = {pointer, value};
  if (mask.has_value()) operands.push_back(*mask);
  if (!CanUse("tt.store", operands)) return;
  const Type type = TypeOf(pointer);
  if (!type.is_pointer || TypeOf(value) != type.WithScalar(type.scalar)) {
    Fail("tt.store", fmt::format("{} to {}", TypeOf(value), type));
  }
  if (mask.has_value()) FitsMask("tt.store", TypeOf(*mask), type);
  if (!status_.ok()) return;
  Line(fmt::format("tt.store {} : {}", Names(operands), type));
}

Value IrBuilder::AtomicRmw(std::string_view operation, Value pointer, Value value,
                           std::optional<Value> mask) {
  static constexpr std::array<std::string_view, 10> kKnown = {"fadd", "add", "max", "min", "umax",
                                                              "umin", "and", "or",  "xor", "exch"};
  Values operands = {pointer, value};
  if (mask.has_value()) operands.push_back(*mask);
  if (!CanUse("tt.atomic_rmw", operands)) return {};
  const Type type = TypeOf(pointer);
  const Type result = type.WithScalar(type.scalar);
  const bool takes_float = operation == "fadd";
  if (std::ranges::count(kKnown, operation) == 0 || !type.is_pointer || TypeOf(value) != result ||
      (operation != "exch" && takes_float != result.IsFloat()) ||
      BitsOf(type.scalar) < (takes_float ? 16 : 32)) {
    return Fail("tt.atomic_rmw", fmt::format("{} of {} at {}", operation, TypeOf(value), type));
  }
  if (mask.has_value() && !FitsMask("tt.atomic_rmw", TypeOf(*mask), type)) return {};
  return Write("tt.atomic_rmw",
               fmt::format("{}, relaxed, gpu, {} : ({}) -> {}", operation, Names(operands),
                           fmt::join(TypesOf(operands), ", "), result),
               result);
}

}  // namespace kiln::graph::triton
