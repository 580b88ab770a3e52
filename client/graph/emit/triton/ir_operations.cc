// The operations of IrBuilder that have neither regions nor pointers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "client/graph/emit/triton/ir_builder.h"

namespace kiln::graph::triton {
namespace {

enum class Takes : uint8_t { kIntegers, kFloats };

struct Operation {
  std::string_view name;
  Takes takes;
};

constexpr std::array<Operation, 14> kUnary = {{{"math.absi", Takes::kIntegers},
                                               {"math.absf", Takes::kFloats},
                                               {"math.ceil", Takes::kFloats},
                                               {"math.cos", Takes::kFloats},
                                               {"math.erf", Takes::kFloats},
                                               {"math.exp", Takes::kFloats},
                                               {"math.exp2", Takes::kFloats},
                                               {"math.floor", Takes::kFloats},
                                               {"math.log", Takes::kFloats},
                                               {"math.log2", Takes::kFloats},
                                               {"math.rsqrt", Takes::kFloats},
                                               {"math.sin", Takes::kFloats},
                                               {"math.sqrt", Takes::kFloats},
                                               {"tt.precise_sqrt", Takes::kFloats}}};

constexpr std::array<Operation, 26> kBinary = {
    {{"arith.addf", Takes::kFloats},     {"arith.addi", Takes::kIntegers},
     {"arith.andi", Takes::kIntegers},   {"arith.divf", Takes::kFloats},
     {"arith.divsi", Takes::kIntegers},  {"arith.divui", Takes::kIntegers},
     {"arith.maximumf", Takes::kFloats}, {"arith.maxnumf", Takes::kFloats},
     {"arith.maxsi", Takes::kIntegers},  {"arith.maxui", Takes::kIntegers},
     {"arith.minimumf", Takes::kFloats}, {"arith.minnumf", Takes::kFloats},
     {"arith.minsi", Takes::kIntegers},  {"arith.minui", Takes::kIntegers},
     {"arith.mulf", Takes::kFloats},     {"arith.muli", Takes::kIntegers},
     {"arith.ori", Takes::kIntegers},    {"arith.remf", Takes::kFloats},
     {"arith.remsi", Takes::kIntegers},  {"arith.remui", Takes::kIntegers},
     {"arith.shli", Takes::kIntegers},   {"arith.shrsi", Takes::kIntegers},
     {"arith.shrui", Takes::kIntegers},  {"arith.subf", Takes::kFloats},
     {"arith.subi", Takes::kIntegers},   {"arith.xori", Takes::kIntegers}}};

// `tt.precise_divf` takes f32 alone.
constexpr std::string_view kPreciseDivide = "tt.precise_divf";

struct CastFacts {
  std::string_view name;
  Takes from;
  Takes to;
  int growth;  // of the bits: 1, -1, or 0 where it does not matter
};

constexpr std::array<CastFacts, 9> kCasts = {
    {{"arith.extsi", Takes::kIntegers, Takes::kIntegers, 1},
     {"arith.extui", Takes::kIntegers, Takes::kIntegers, 1},
     {"arith.trunci", Takes::kIntegers, Takes::kIntegers, -1},
     {"arith.sitofp", Takes::kIntegers, Takes::kFloats, 0},
     {"arith.uitofp", Takes::kIntegers, Takes::kFloats, 0},
     {"arith.fptosi", Takes::kFloats, Takes::kIntegers, 0},
     {"arith.fptoui", Takes::kFloats, Takes::kIntegers, 0},
     {"arith.extf", Takes::kFloats, Takes::kFloats, 1},
     {"arith.truncf", Takes::kFloats, Takes::kFloats, -1}}};

bool Accepts(Takes takes, const Type& type) {
  return takes == Takes::kIntegers ? type.IsInteger() : type.IsFloat();
}

bool HasEightBits(Scalar scalar) { return scalar == Scalar::kF8E4M3 || scalar == Scalar::kF8E5M2; }

template <typename Table>
auto Find(const Table& table, std::string_view name) {
  return std::ranges::find(table, name, [](const auto& row) { return row.name; });
}

// Decimal where that is exact enough to read back, else the bits.
std::string FloatText(Scalar scalar, double number) {
  if (std::isfinite(number)) {
    std::string text = fmt::format("{}", number);
    if (text.find('.') == std::string::npos) {
      text.insert(std::min(text.find('e'), text.size()), ".0");
    }
    return text;
  }
  const bool is_nan = std::isnan(number);
  const bool is_negative = std::signbit(number);
  const auto bits = [&](uint64_t infinity, uint64_t nan, int width) {
    return fmt::format(
        "0x{:0{}X}", (is_nan ? nan : infinity) | (uint64_t{is_negative} << (width - 1)), width / 4);
  };
  switch (scalar) {
    case Scalar::kF64:
      return bits(0x7FF0000000000000, 0x7FF8000000000000, 64);
    case Scalar::kF32:
      return bits(0x7F800000, 0x7FC00000, 32);
    case Scalar::kF16:
      return bits(0x7C00, 0x7E00, 16);
    case Scalar::kBF16:
      return bits(0x7F80, 0x7FC0, 16);
    case Scalar::kF8E5M2:
      return bits(0x7C, 0x7E, 8);
    default:
      return bits(0x7F, 0x7F, 8);
  }
}

std::string ConstantText(std::string_view number, const Type& type) {
  if (type.IsTensor()) return fmt::format("dense<{}> : {}", number, type);
  return type.scalar == Scalar::kI1 ? std::string(number) : fmt::format("{} : {}", number, type);
}

int64_t Elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

Value IrBuilder::Float(const Type& type, double number) {
  if (!status_.ok()) return {};
  if (!type.IsFloat()) return Fail("arith.constant", fmt::format("{} for a float", type));
  return Write("arith.constant", ConstantText(FloatText(type.scalar, number), type), type);
}

Value IrBuilder::Integer(const Type& type, int64_t number) {
  if (!status_.ok()) return {};
  if (!type.IsInteger()) return Fail("arith.constant", fmt::format("{} for an integer", type));
  if (type.scalar == Scalar::kI1) {
    return Write("arith.constant", ConstantText(number != 0 ? "true" : "false", type), type);
  }
  const int unused = 64 - BitsOf(type.scalar);
  const auto low = static_cast<int64_t>(static_cast<uint64_t>(number) << unused) >> unused;
  return Write("arith.constant", ConstantText(fmt::format("{}", low), type), type);
}

Value IrBuilder::Unary(std::string_view operation, Value operand) {
  if (!CanUse(operation, {operand})) return {};
  const auto* found = Find(kUnary, operation);
  const Type type = TypeOf(operand);
  if (found == kUnary.end()) return Fail(operation, "unknown");
  if (!Accepts(found->takes, type) || HasEightBits(type.scalar)) {
    return Fail(operation, fmt::format("{} is no operand of it", type));
  }
  return Write(operation, fmt::format("{} : {}", Name(operand), type), type);
}

Value IrBuilder::Binary(std::string_view operation, Value left, Value right) {
  if (!CanUse(operation, {left, right})) return {};
  const Type type = TypeOf(left);
  if (type != TypeOf(right)) {
    return Fail(operation, fmt::format("operands are {} and {}", type, TypeOf(right)));
  }
  const auto* found = Find(kBinary, operation);
  const bool is_precise = operation == kPreciseDivide;
  if (found == kBinary.end() && !is_precise) return Fail(operation, "unknown");
  if (is_precise ? type.is_pointer || type.scalar != Scalar::kF32
                 : !Accepts(found->takes, type) || HasEightBits(type.scalar)) {
    return Fail(operation, fmt::format("{} is no operand of it", type));
  }
  return Write(operation, fmt::format("{} : {}", Names({left, right}), type), type);
}

Value IrBuilder::Compare(std::string_view predicate, Value left, Value right) {
  static constexpr std::array<std::string_view, 10> kIntegers = {"eq",  "ne",  "slt", "sle", "sgt",
                                                                 "sge", "ult", "ule", "ugt", "uge"};
  static constexpr std::array<std::string_view, 14> kFloats = {"oeq", "ogt", "oge", "olt", "ole",
                                                               "one", "ord", "ueq", "ugt", "uge",
                                                               "ult", "ule", "une", "uno"};
  if (!CanUse(predicate, {left, right})) return {};
  const Type type = TypeOf(left);
  const bool is_known = type.IsFloat() ? std::ranges::count(kFloats, predicate) > 0
                                       : std::ranges::count(kIntegers, predicate) > 0;
  if (type != TypeOf(right) || type.is_pointer || !is_known) {
    return Fail(predicate, fmt::format("operands are {} and {}", type, TypeOf(right)));
  }
  return Write(type.IsFloat() ? "arith.cmpf" : "arith.cmpi",
               fmt::format("{}, {} : {}", predicate, Names({left, right}), type),
               type.WithScalar(Scalar::kI1));
}

Value IrBuilder::Select(Value condition, Value yes, Value no) {
  if (!CanUse("arith.select", {condition, yes, no})) return {};
  const Type type = TypeOf(yes);
  const Type mask = TypeOf(condition);
  if (type != TypeOf(no) || mask.is_pointer || mask.scalar != Scalar::kI1 ||
      (mask.IsTensor() && mask.shape != type.shape)) {
    return Fail("arith.select", fmt::format("operands are {}, {} and {}", mask, type, TypeOf(no)));
  }
  const std::string types = mask.IsTensor() ? fmt::format("{}, {}", mask, type) : ToString(type);
  return Write("arith.select", fmt::format("{} : {}", Names({condition, yes, no}), types), type);
}

Value IrBuilder::MultiplyAdd(Value left, Value right, Value addend) {
  if (!CanUse("math.fma", {left, right, addend})) return {};
  const Type type = TypeOf(left);
  if (!type.IsFloat() || HasEightBits(type.scalar) || type != TypeOf(right) ||
      type != TypeOf(addend)) {
    return Fail("math.fma",
                fmt::format("operands are {}, {} and {}", type, TypeOf(right), TypeOf(addend)));
  }
  return Write("math.fma", fmt::format("{} : {}", Names({left, right, addend}), type), type);
}

Value IrBuilder::Cast(std::string_view operation, Value operand, Scalar to) {
  if (!CanUse(operation, {operand})) return {};
  const Type from = TypeOf(operand);
  const Type type = from.WithScalar(to);
  const int growth = BitsOf(to) - BitsOf(from.scalar);
  bool fits = !from.is_pointer;
  if (operation == "tt.bitcast") {
    fits = fits && growth == 0;
  } else if (operation == "tt.fp_to_fp") {
    fits =
        fits && from.IsFloat() && type.IsFloat() && (HasEightBits(from.scalar) != HasEightBits(to));
  } else if (const auto* found = Find(kCasts, operation); found != kCasts.end()) {
    fits = fits && Accepts(found->from, from) && Accepts(found->to, type) &&
           (found->growth == 0 || found->growth * growth > 0) && !HasEightBits(from.scalar) &&
           !HasEightBits(to);
  } else {
    return Fail(operation, "unknown");
  }
  if (!fits) return Fail(operation, fmt::format("{} to {}", from, type));
  // Rounding is said where bits are lost, and nowhere else.
  const std::string_view rounding = growth < 0 && type.IsFloat() ? ", rounding = rtne" : "";
  if (operation.starts_with("tt.")) return Convert(operation, operand, type, rounding);
  return Write(operation, fmt::format("{} : {} to {}", Name(operand), from, type), type);
}

Value IrBuilder::BitCastPointer(Value pointer, Scalar to) {
  if (!CanUse("tt.bitcast", {pointer})) return {};
  const Type from = TypeOf(pointer);
  const Type type{to, from.shape, from.is_pointer};
  if (!from.is_pointer || BitsOf(from.scalar) != BitsOf(to)) {
    return Fail("tt.bitcast", fmt::format("{} to {}", from, type));
  }
  return Convert("tt.bitcast", pointer, type);
}

Value IrBuilder::External(std::string_view symbol, const Values& operands, const Type& type) {
  if (!CanUse(symbol, operands)) return {};
  const std::vector<Type> types = TypesOf(operands);
  for (const Type& operand : types) {
    if (operand.is_pointer || operand.shape != type.shape) {
      return Fail(symbol, fmt::format("operand {} for a result {}", operand, type));
    }
  }
  return Write("tt.extern_elementwise",
               fmt::format(R"({} {{libname = "", libpath = "", pure = true, symbol = "{}"}} : )"
                           R"(({}) -> {})",
                           Names(operands), symbol, fmt::join(types, ", "), type),
               type);
}

Value IrBuilder::ProgramId(int axis) {
  if (!status_.ok()) return {};
  if (axis < 0 || axis > 2) return Fail("tt.get_program_id", fmt::format("no axis {}", axis));
  return Write("tt.get_program_id", fmt::format("{} : i32", "xyz"[axis]), {Scalar::kI32});
}

Value IrBuilder::MakeRange(int64_t start, int64_t end) {
  if (!status_.ok()) return {};
  if (start < 0 || end <= start || end > INT32_MAX) {
    return Fail("tt.make_range", fmt::format("from {} to {}", start, end));
  }
  const Type type{Scalar::kI32, {end - start}};
  return Write("tt.make_range",
               fmt::format("{{end = {} : i32, start = {} : i32}} : {}", end, start, type), type);
}

Value IrBuilder::Splat(Value scalar, const std::vector<int64_t>& shape) {
  if (!CanUse("tt.splat", {scalar})) return {};
  const Type from = TypeOf(scalar);
  const Type type = from.WithShape(shape);
  if (from.IsTensor() || shape.empty()) {
    return Fail("tt.splat", fmt::format("{} to {}", from, type));
  }
  return Convert("tt.splat", scalar, type);
}

Value IrBuilder::ExpandDims(Value tensor, int axis) {
  if (!CanUse("tt.expand_dims", {tensor})) return {};
  Type type = TypeOf(tensor);
  if (!type.IsTensor() || axis < 0 || axis > static_cast<int>(type.shape.size())) {
    return Fail("tt.expand_dims", fmt::format("{} has no place for axis {}", type, axis));
  }
  type.shape.insert(type.shape.begin() + axis, 1);
  return Convert("tt.expand_dims", tensor, type, fmt::format(" {{axis = {} : i32}}", axis));
}

Value IrBuilder::Broadcast(Value tensor, const std::vector<int64_t>& shape) {
  if (!CanUse("tt.broadcast", {tensor})) return {};
  const Type from = TypeOf(tensor);
  const Type type = from.WithShape(shape);
  bool fits = from.IsTensor() && from.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = from.shape[i] == shape[i] || from.shape[i] == 1;
  }
  if (!fits) return Fail("tt.broadcast", fmt::format("{} to {}", from, type));
  return Convert("tt.broadcast", tensor, type);
}

Value IrBuilder::Reshape(Value tensor, const std::vector<int64_t>& shape) {
  if (!CanUse("tt.reshape", {tensor})) return {};
  const Type from = TypeOf(tensor);
  const Type type = from.WithShape(shape);
  if (!from.IsTensor() || shape.empty() || Elements(shape) != Elements(from.shape)) {
    return Fail("tt.reshape", fmt::format("{} to {}", from, type));
  }
  return Convert("tt.reshape", tensor, type);
}

Value IrBuilder::Transpose(Value tensor, const std::vector<int>& order) {
  if (!CanUse("tt.trans", {tensor})) return {};
  const Type from = TypeOf(tensor);
  Type type = from.WithShape({});
  const std::string places = fmt::format("{}", fmt::join(order, ", "));
  std::vector<int> sorted = order;
  std::ranges::sort(sorted);
  bool fits = from.IsTensor() && order.size() == from.shape.size();
  for (size_t i = 0; fits && i < order.size(); ++i) fits = sorted[i] == static_cast<int>(i);
  if (!fits) return Fail("tt.trans", fmt::format("{} by ({})", from, places));
  for (int axis : order) type.shape.push_back(from.shape[axis]);
  return Convert("tt.trans", tensor, type, fmt::format(" {{order = array<i32: {}>}}", places));
}

Value IrBuilder::Dot(Value left, Value right, Value accumulator, bool uses_tf32) {
  if (!CanUse("tt.dot", {left, right, accumulator})) return {};
  const Type a = TypeOf(left);
  const Type b = TypeOf(right);
  const Type c = TypeOf(accumulator);
  const bool fits = !a.is_pointer && a.scalar == b.scalar && a.IsFloat() == c.IsFloat() &&
                    a.shape.size() == 2 && b.shape.size() == 2 && a.shape[1] == b.shape[0] &&
                    c.shape == std::vector<int64_t>{a.shape[0], b.shape[1]} && !c.is_pointer &&
                    BitsOf(c.scalar) >= BitsOf(a.scalar);
  if (!fits) return Fail("tt.dot", fmt::format("{} * {} -> {}", a, b, c));
  std::string_view how = uses_tf32 ? ", inputPrecision = tf32" : "";
  // Hopper sums products of 8-bit floats in few bits: so many of them at most, before they are
  // added to the accumulator.
  if (HasEightBits(a.scalar)) how = " {maxNumImpreciseAcc = 128 : i32}";
  return Write("tt.dot",
               fmt::format("{}{} : {} * {} -> {}", Names({left, right, accumulator}), how, a, b, c),
               c);
}

}  // namespace kiln::graph::triton
