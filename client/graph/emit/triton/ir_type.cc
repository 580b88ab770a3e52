#include "client/graph/emit/triton/ir_type.h"

#include <fmt/format.h>

#include <array>

namespace kiln::graph::triton {
namespace {

struct ScalarFacts {
  std::string_view name;
  int bits;
};

constexpr std::array<ScalarFacts, 11> kScalars = {{{"i1", 1},
                                                   {"i8", 8},
                                                   {"i16", 16},
                                                   {"i32", 32},
                                                   {"i64", 64},
                                                   {"f8E4M3FN", 8},
                                                   {"f8E5M2", 8},
                                                   {"bf16", 16},
                                                   {"f16", 16},
                                                   {"f32", 32},
                                                   {"f64", 64}}};

// Triton's own limit.
constexpr int64_t kMaxTensorElements = 1 << 20;

Scalar IntegerOf(int bits) {
  return bits <= 8    ? Scalar::kI8
         : bits == 16 ? Scalar::kI16
         : bits == 32 ? Scalar::kI32
                      : Scalar::kI64;
}

}  // namespace

std::string_view NameOf(Scalar scalar) { return kScalars[static_cast<size_t>(scalar)].name; }

int BitsOf(Scalar scalar) { return kScalars[static_cast<size_t>(scalar)].bits; }

Scalar ScalarOf(DType type) {
  switch (type) {
    case DType::kBool:
      return Scalar::kI1;
    case DType::kF8E4M3:
      return Scalar::kF8E4M3;
    case DType::kF8E5M2:
      return Scalar::kF8E5M2;
    case DType::kBF16:
      return Scalar::kBF16;
    case DType::kF16:
      return Scalar::kF16;
    case DType::kF32:
      return Scalar::kF32;
    case DType::kF64:
      return Scalar::kF64;
    default:
      return IntegerOf(FactsOf(type).bits);
  }
}

std::string ToString(const Type& type) {
  std::string element(NameOf(type.scalar));
  if (type.is_pointer) element = fmt::format("!tt.ptr<{}>", element);
  if (!type.IsTensor()) return element;
  std::string shape;
  for (int64_t extent : type.shape) shape += fmt::format("{}x", extent);
  return fmt::format("tensor<{}{}>", shape, element);
}

std::string WhatIsWrong(const Type& type) {
  if (type.is_pointer && type.scalar == Scalar::kI1) {
    return "no pointer leads to an i1: bools are i8 in memory";
  }
  int64_t elements = 1;
  for (int64_t extent : type.shape) {
    if (extent <= 0 || (extent & (extent - 1)) != 0) {
      return fmt::format("{}: every extent of a tensor must be a power of two", ToString(type));
    }
    if (extent > kMaxTensorElements / elements) {
      return fmt::format("{}: a tensor has at most {} elements", ToString(type),
                         kMaxTensorElements);
    }
    elements *= extent;
  }
  return "";
}

}  // namespace kiln::graph::triton
