// The types of Triton IR that kernels for graphs need.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/graph/program/dtype.h"

namespace kiln::graph::triton {

enum class Scalar : uint8_t {
  kI1,
  kI8,
  kI16,
  kI32,
  kI64,
  kF8E4M3,
  kF8E5M2,
  kBF16,
  kF16,
  kF32,
  kF64
};

std::string_view NameOf(Scalar scalar);  // as in Triton IR: "f8E4M3FN"
int BitsOf(Scalar scalar);
inline bool IsFloat(Scalar scalar) { return scalar >= Scalar::kF8E4M3; }
// What a value of this type is while it is computed with: integers have no sign, a bool is an i1.
Scalar ScalarOf(DType type);

// A scalar, a pointer, or a ranked tensor of either.
struct Type {
  Scalar scalar = Scalar::kI32;
  std::vector<int64_t> shape = {};  // empty: no tensor
  bool is_pointer = false;

  bool operator==(const Type&) const = default;
  bool IsFloat() const { return !is_pointer && triton::IsFloat(scalar); }
  bool IsInteger() const { return !is_pointer && !triton::IsFloat(scalar); }
  bool IsTensor() const { return !shape.empty(); }
  Type WithShape(std::vector<int64_t> other) const {
    return {scalar, std::move(other), is_pointer};
  }
  Type WithScalar(Scalar other) const { return {other, shape, false}; }
};

inline Type PointerTo(Scalar scalar) { return {scalar, {}, true}; }

// "tensor<16x64x!tt.ptr<f32>>".
std::string ToString(const Type& type);
// Empty, or why Triton refuses it.
std::string WhatIsWrong(const Type& type);

}  // namespace kiln::graph::triton

// As ToString has it.
template <>
struct fmt::formatter<kiln::graph::triton::Type> : fmt::formatter<std::string> {
  auto format(const kiln::graph::triton::Type& type, format_context& context) const {
    return formatter<std::string>::format(ToString(type), context);
  }
};
