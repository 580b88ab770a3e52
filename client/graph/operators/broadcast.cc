#include "client/graph/operators/broadcast.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

// The numbers of onnx.TensorProto.DataType that have a type here.
std::optional<DType> TypeOfOnnx(int64_t number) {
  constexpr std::pair<int, DType> kNumbers[] = {
      {1, DType::kF32},   {2, DType::kU8},      {3, DType::kI8},      {4, DType::kU16},
      {5, DType::kI16},   {6, DType::kI32},     {7, DType::kI64},     {9, DType::kBool},
      {10, DType::kF16},  {11, DType::kF64},    {12, DType::kU32},    {13, DType::kU64},
      {16, DType::kBF16}, {17, DType::kF8E4M3}, {19, DType::kF8E5M2}, {21, DType::kU4},
      {22, DType::kI4}};
  for (const auto& [known, type] : kNumbers) {
    if (known == number) return type;
  }
  return std::nullopt;
}

}  // namespace

const Value* InputAt(const Segment& segment, const Operation& operation, size_t input) {
  if (input >= operation.inputs.size() || operation.inputs[input] == kOmitted) return nullptr;
  return &segment.values[static_cast<size_t>(operation.inputs[input])];
}

std::optional<DType> DTypeAttribute(const Operation& operation, std::string_view name) {
  const Attribute* attribute = FindAttribute(operation, name);
  const auto* number = attribute == nullptr ? nullptr : std::get_if<int64_t>(attribute);
  if (number != nullptr) return TypeOfOnnx(*number);
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(attribute);
  return text == nullptr ? std::nullopt : ParseDType(*text);
}

absl::StatusOr<std::vector<Size>> BroadcastShapes(const std::vector<Size>& one,
                                                  const std::vector<Size>& two,
                                                  const std::vector<Symbol>& symbols) {
  const bool one_is_longer = one.size() >= two.size();
  std::vector<Size> result = one_is_longer ? one : two;
  const std::vector<Size>& other = one_is_longer ? two : one;
  const size_t added = result.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    Size& extent = result[added + i];
    if (extent == other[i] || other[i] == Size(1)) continue;
    if (extent != Size(1)) {
      return absl::InvalidArgumentError(fmt::format("shapes {} and {} do not fit each other",
                                                    ShapeText(one, symbols),
                                                    ShapeText(two, symbols)));
    }
    extent = other[i];
  }
  return result;
}

Position BroadcastPosition(const Position& position, const std::vector<Size>& shape,
                           ProgramBuilder& builder) {
  Position place(position.end() - static_cast<std::ptrdiff_t>(shape.size()), position.end());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Size(1)) place[i] = builder.SizeOf(0);
  }
  return place;
}

DType PromotedType(DType one, DType two) {
  if (one == two) return one;
  const DTypeFacts& a = FactsOf(one);
  const DTypeFacts& b = FactsOf(two);
  if (a.kind != b.kind && (a.kind == DTypeClass::kFloat || b.kind == DTypeClass::kFloat)) {
    return a.kind == DTypeClass::kFloat ? one : two;
  }
  if (a.kind == b.kind) {
    if (a.bits != b.bits) return a.bits > b.bits ? one : two;
    return DType::kF32;  // two narrow floats, neither of which holds the other
  }
  if (one == DType::kBool || two == DType::kBool) return one == DType::kBool ? two : one;
  const bool one_is_signed = a.kind == DTypeClass::kSigned;
  const DTypeFacts& sign = one_is_signed ? a : b;
  const int bits = one_is_signed ? b.bits : a.bits;
  if (sign.bits > bits) return sign.type;
  if (bits < 8) return DType::kI8;
  if (bits < 16) return DType::kI16;
  return bits < 32 ? DType::kI32 : DType::kI64;
}

}  // namespace kiln::graph
