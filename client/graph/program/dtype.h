// The element types of graph values, in one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::graph {

enum class DType : uint8_t {
  kBool,
  kI4,
  kI8,
  kI16,
  kI32,
  kI64,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF8E4M3,
  kF8E5M2,  // e4m3fn and e5m2 of OCP
  kBF16,
  kF16,
  kF32,
  kF64,
};
inline constexpr int kDTypes = 17;

enum class DTypeClass : uint8_t { kBool, kSigned, kUnsigned, kFloat };

// Where tiles of factors are multiplied as they are, by a matrix unit if the target has one.
struct TileTargets {
  int cuda_from = 0;     // the first compute capability; 0: none
  std::string_view hip;  // "gfx": all; "gfx950": that one; empty: none
};

struct DTypeFacts {
  DType type;
  std::string_view name;  // "f16": in JSON, in messages, in the names of kernels
  DTypeClass kind;
  int bits;          // in memory; a bool takes 8
  DType compute;     // what an elementwise operation computes in
  DType accumulate;  // what sums and products are accumulated in, on every target
  TileTargets tiles = {};
  // What its tiles are multiplied as elsewhere, which has all of its numbers. Nothing: products are
  // sums of elements.
  std::optional<DType> widened = std::nullopt;
};

const DTypeFacts& FactsOf(DType type);
// "f16", and the names that NumPy and ONNX use: "float16", "FLOAT16", "bfloat16", "bool".
std::optional<DType> ParseDType(std::string_view name);

// What a target multiplies factors of the type as, in tiles. `architecture`: "90a", "gfx942";
// empty: any that takes i8. Nothing: it has no such product.
std::optional<DType> TileFactor(DType type, std::string_view backend,
                                std::string_view architecture);

inline bool IsFloat(DType type) { return FactsOf(type).kind == DTypeClass::kFloat; }
inline bool IsInteger(DType type) {
  return FactsOf(type).kind == DTypeClass::kSigned || FactsOf(type).kind == DTypeClass::kUnsigned;
}

}  // namespace kiln::graph
