#include "client/graph/emit/c_functions.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

struct Conversion {
  std::string_view name;
  std::string_view text;  // FUNCTION, BITS_OF_F32 … are the dialect's
};

// Callees first.
constexpr std::array kConversions = {
    Conversion{"kiln_bf16_to_f32", R"(
FUNCTION f32 kiln_bf16_to_f32(u16 x) { return F32_OF_BITS((u32)x << 16); }
)"},
    Conversion{"kiln_f32_to_bf16", R"(
FUNCTION u16 kiln_f32_to_bf16(f32 x) {
  u32 bits = BITS_OF_F32(x);
  return x != x ? (u16)0x7fff : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
)"},
    Conversion{"kiln_f8e4m3_to_f32", R"(
FUNCTION f32 kiln_f8e4m3_to_f32(u8 x) {
  u32 size = x & 0x7f;
  f32 number = size < 8 ? (f32)size * 0.001953125f : F32_OF_BITS((size << 20) + 0x3c000000);
  if (size == 0x7f) number = F32_OF_BITS(0x7fc00000u);
  return x > 0x7f ? -number : number;
}
)"},
    Conversion{"kiln_f8e5m2_to_f32", R"(
FUNCTION f32 kiln_f8e5m2_to_f32(u8 x) { return kiln_f16_to_f32((u16)(x << 8)); }
)"},
    // Clamps, then rounds to nearest even: subnormal numbers as multiples of the least, the others
    // by their bits.
    Conversion{"kiln_f32_to_f8", R"(
FUNCTION u8 kiln_f32_to_f8(f32 x, f32 max, f32 min_normal, f32 steps, u32 dropped, u32 bias) {
  u32 bits = BITS_OF_F32(x);
  u32 sign = bits >> 31 << 7;
  f32 size = F32_OF_BITS(bits & 0x7fffffff);
  if (x != x) return (u8)(sign | 0x7f);
  if (size > max) size = max;
  if (size < min_normal) return (u8)(sign | (u32)RINT(size * steps));
  bits = BITS_OF_F32(size);
  bits += (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
  return (u8)(sign | ((bits - bias) >> dropped));
}
)"},
    Conversion{"kiln_f32_to_f8e4m3", R"(
FUNCTION u8 kiln_f32_to_f8e4m3(f32 x) {
  return kiln_f32_to_f8(x, 448.0f, 0.015625f, 512.0f, 20, 120u << 23);
}
)"},
    Conversion{"kiln_f32_to_f8e5m2", R"(
FUNCTION u8 kiln_f32_to_f8e5m2(f32 x) {
  return kiln_f32_to_f8(x, 57344.0f, 0.00006103515625f, 65536.0f, 21, 112u << 23);
}
)"},
    // To a neighbour, the odd one: rounding that again to fewer bits is right.
    Conversion{"kiln_f64_to_odd_f32", R"(
FUNCTION f32 kiln_f64_to_odd_f32(f64 x) {
  f32 near = (f32)x;
  u32 bits = BITS_OF_F32(near);
  f64 less = near < 0 ? -(f64)near : (f64)near;
  if (x != x || (f64)near == x || (bits & 1)) return near;
  return F32_OF_BITS(less < (x < 0 ? -x : x) ? bits + 1 : bits - 1);
}
)"},
};

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string InDialect(const CDialect& dialect, std::string_view text) {
  std::string printed = Replaced(std::string(text.substr(1)), "FUNCTION", dialect.function);
  printed = Replaced(std::move(printed), "BITS_OF_F32", dialect.bits_of_f32);
  printed = Replaced(std::move(printed), "F32_OF_BITS", dialect.f32_of_bits);
  return Replaced(std::move(printed), "RINT", fmt::format("rint{}", dialect.f32_suffix));
}

std::string_view WordOf(StoreKind store) {
  switch (store) {
    case StoreKind::kAtomicMinimum:
      return "min";
    case StoreKind::kAtomicMaximum:
      return "max";
    default:
      return "add";
  }
}

// Whether one function of the language does it: for words, as integers or as floats.
bool IsNative(const CDialect& dialect, StoreKind store, DType type) {
  if (FactsOf(type).bits < 32) return false;
  return IsInteger(type) || (store == StoreKind::kAtomicAdd && dialect.adds_floats);
}

std::string NativeAtomic(const CDialect& dialect, StoreKind store, DType type) {
  const bool is_wide = FactsOf(type).bits == 64;
  const CAtomics& atomics = is_wide ? dialect.atomics_64 : dialect.atomics_32;
  const bool adds = store == StoreKind::kAtomicAdd;
  const std::string_view name = adds                                 ? atomics.add
                                : store == StoreKind::kAtomicMinimum ? atomics.minimum
                                                                     : atomics.maximum;
  // CUDA has 64-bit sums of u64 alone; those of i64 have the same bits.
  const std::string_view word = adds && type == DType::kI64 ? "u64" : CType(type);
  return fmt::format("  {}(({}{}*)p, ({})x);\n", name, dialect.global, word, word);
}

// Replaces the element in the word of 32 or 64 bits around it until no other thread came between.
std::string AtomicLoop(const CDialect& dialect, StoreKind store, DType type) {
  const int bits = FactsOf(type).bits;
  const DType compute = FactsOf(type).compute;
  const DType unsigned_type = bits == 8    ? DType::kU8
                              : bits == 16 ? DType::kU16
                              : bits == 32 ? DType::kU32
                                           : DType::kU64;
  const std::string_view word = bits == 64 ? "u64" : "u32";
  const CExpression expression(dialect, false);
  const auto bit_cast = [&](DType to, DType from, const std::string& x) {
    Instruction cast;
    cast.opcode = Opcode::kBitCast;
    cast.type = to;
    return expression.Of(cast, from, {x});
  };
  const std::string before = CCast(
      compute, type,
      bit_cast(type, unsigned_type, fmt::format("({})(seen >> shift)", CType(unsigned_type))));
  const std::string after = bit_cast(unsigned_type, type, CCast(type, compute, "sum"));
  return fmt::format(
      R"(  {global}{word}* at = ({global}{word}*)((u64)p & ~(u64){last_byte});
  {word} shift = ({word})((u64)p & {last_byte}) * 8;
  {word} mask = ({word})({unsigned})~({unsigned})0 << shift;
  {word} old = *at, seen;
  do {{
    seen = old;
    {compute} before = {before};
    {compute} sum = {expression};
    old = {exchange}(at, seen, (seen & ~mask) | ({word})({unsigned}){after} << shift);
  }} while (old != seen);
)",
      fmt::arg("global", dialect.global), fmt::arg("word", word),
      fmt::arg("last_byte", bits == 64 ? 7 : 3), fmt::arg("unsigned", CType(unsigned_type)),
      fmt::arg("compute", CType(compute)), fmt::arg("before", before),
      fmt::arg("expression",
               expression.Binary(OpcodeOf(store), compute, "before", CCast(compute, type, "x"))),
      fmt::arg("exchange", bits == 64 ? dialect.atomics_64.compare_exchange
                                      : dialect.atomics_32.compare_exchange),
      fmt::arg("after", after));
}

}  // namespace

std::string AtomicStoreName(StoreKind store, DType type) {
  return fmt::format("kiln_atomic_{}_{}", WordOf(store), FactsOf(type).name);
}

std::string AtomicStoreFunction(const CDialect& dialect, StoreKind store, DType type) {
  return fmt::format("{} void {}({}{}* p, {} x) {{\n{}}}\n", dialect.function,
                     AtomicStoreName(store, type), dialect.global, CStorageType(type), CType(type),
                     IsNative(dialect, store, type) ? NativeAtomic(dialect, store, type)
                                                    : AtomicLoop(dialect, store, type));
}

std::string ConversionsOf(const CDialect& dialect, std::string_view text) {
  std::string printed;
  const auto calls = [&](std::string_view name) {
    const std::string call = fmt::format("{}(", name);
    return text.find(call) != std::string_view::npos || printed.find(call) != std::string::npos;
  };
  for (auto each = kConversions.rbegin(); each != kConversions.rend(); ++each) {
    if (calls(each->name)) printed = InDialect(dialect, each->text) + printed;
  }
  for (const std::string_view function : dialect.f16_functions) {
    const size_t name = function.find("kiln_");
    if (!calls(function.substr(name, function.find('(') - name))) continue;
    printed = InDialect(dialect, function) + printed;
  }
  return printed;
}

}  // namespace kiln::graph
