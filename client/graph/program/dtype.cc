#include "client/graph/program/dtype.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace kiln::graph {
namespace {

struct DTypeRow {
  DTypeFacts facts;
  std::string_view numpy;  // ONNX has it in capitals
};

using D = DType;
using C = DTypeClass;

// Triton 3.6 has no product of i8 before sm_80.
constexpr DTypeRow kTable[kDTypes] = {
    {{D::kBool, "bool", C::kBool, 8, D::kBool, D::kI32}, "bool"},
    {{D::kI4, "i4", C::kSigned, 4, D::kI8, D::kI32}, "int4"},
    {{D::kI8, "i8", C::kSigned, 8, D::kI8, D::kI32, {80, "gfx"}}, "int8"},
    {{D::kI16, "i16", C::kSigned, 16, D::kI16, D::kI32}, "int16"},
    {{D::kI32, "i32", C::kSigned, 32, D::kI32, D::kI32}, "int32"},
    {{D::kI64, "i64", C::kSigned, 64, D::kI64, D::kI64}, "int64"},
    {{D::kU4, "u4", C::kUnsigned, 4, D::kU8, D::kU32}, "uint4"},
    {{D::kU8, "u8", C::kUnsigned, 8, D::kU8, D::kU32}, "uint8"},
    {{D::kU16, "u16", C::kUnsigned, 16, D::kU16, D::kU32}, "uint16"},
    {{D::kU32, "u32", C::kUnsigned, 32, D::kU32, D::kU32}, "uint32"},
    {{D::kU64, "u64", C::kUnsigned, 64, D::kU64, D::kU64}, "uint64"},
    {{D::kF8E4M3, "f8e4m3", C::kFloat, 8, D::kF32, D::kF32, {89, "gfx950"}, D::kF16},
     "float8e4m3fn"},
    {{D::kF8E5M2, "f8e5m2", C::kFloat, 8, D::kF32, D::kF32, {89, "gfx950"}, D::kF16}, "float8e5m2"},
    {{D::kBF16, "bf16", C::kFloat, 16, D::kF32, D::kF32, {1, "gfx"}}, "bfloat16"},
    {{D::kF16, "f16", C::kFloat, 16, D::kF32, D::kF32, {1, "gfx"}}, "float16"},
    {{D::kF32, "f32", C::kFloat, 32, D::kF32, D::kF32, {1, "gfx"}}, "float32"},
    {{D::kF64, "f64", C::kFloat, 64, D::kF64, D::kF64}, "float64"},
};

bool EqualsIgnoringCase(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

}  // namespace

const DTypeFacts& FactsOf(DType type) { return kTable[static_cast<size_t>(type)].facts; }

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeRow& row : kTable) {
    if (EqualsIgnoringCase(name, row.facts.name) || EqualsIgnoringCase(name, row.numpy)) {
      return row.facts.type;
    }
  }
  return std::nullopt;
}

std::optional<DType> TileFactor(DType type, std::string_view backend,
                                std::string_view architecture) {
  const DTypeFacts& facts = FactsOf(type);
  int capability = architecture.empty() ? 80 : 0;
  std::from_chars(architecture.data(), architecture.data() + architecture.size(), capability);
  const bool is_taken =
      backend == "hip"
          ? facts.tiles.hip == "gfx" || (architecture == facts.tiles.hip && !architecture.empty())
          : facts.tiles.cuda_from > 0 && capability >= facts.tiles.cuda_from;
  return is_taken ? std::optional(type) : facts.widened;
}

}  // namespace kiln::graph
