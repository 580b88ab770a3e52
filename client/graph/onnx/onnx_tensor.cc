#include "client/graph/onnx/onnx_tensor.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>

#include "absl/status/status.h"
#include "client/graph/onnx/limits.h"

namespace kiln::graph {
namespace {

// By TensorProto.DataType.
using D = DType;
constexpr std::array<std::optional<DType>, 23> kTypes = {
    std::nullopt, D::kF32,    D::kU8,       D::kI8,       D::kU16,  D::kI16,
    D::kI32,      D::kI64,    std::nullopt, D::kBool,     D::kF16,  D::kF64,
    D::kU32,      D::kU64,    std::nullopt, std::nullopt, D::kBF16, D::kF8E4M3,
    std::nullopt, D::kF8E5M2, std::nullopt, D::kU4,       D::kI4};

template <typename... Arguments>
absl::Status WrongTensor(const OnnxTensor& tensor, fmt::format_string<Arguments...> format,
                         Arguments&&... arguments) {
  return absl::InvalidArgumentError(
      fmt::format("tensor \"{:.200}\": {}", tensor.name,
                  fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// Each number in `bits` bits; those of 4 bits come in pairs.
template <typename Number>
std::string Narrowed(const std::vector<Number>& numbers, int bits) {
  const size_t size = bits < 8 ? 1 : static_cast<size_t>(bits) / 8;
  std::string bytes(numbers.size() * size, '\0');
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::memcpy(bytes.data() + i * size, &numbers[i], size);
  }
  return bytes;
}

std::string TypedBytes(const OnnxTensor& tensor, DType type) {
  const int bits = FactsOf(type).bits;
  switch (type) {
    case DType::kF32:
      return Narrowed(tensor.floats, bits);
    case DType::kF64:
      return Narrowed(tensor.doubles, bits);
    case DType::kI64:
      return Narrowed(tensor.int64s, bits);
    case DType::kU32:
    case DType::kU64:
      return Narrowed(tensor.uint64s, bits);
    default:
      return Narrowed(tensor.int32s, bits);
  }
}

// What the dimensions take.
absl::StatusOr<uint64_t> BytesTaken(const OnnxTensor& tensor, int bits) {
  if (tensor.dims.size() > kOnnxDimensionsMax) {
    return WrongTensor(tensor, "it has over {} dimensions", kOnnxDimensionsMax);
  }
  constexpr uint64_t kElementsMax = kOnnxTensorBytesMax * 2;
  bool is_empty = false;
  for (const int64_t extent : tensor.dims) {
    if (extent < 0) return WrongTensor(tensor, "a dimension is negative");
    is_empty |= extent == 0;
  }
  uint64_t elements = is_empty ? 0 : 1;
  for (const int64_t extent : tensor.dims) {
    if (elements != 0 && static_cast<uint64_t>(extent) > kElementsMax / elements) {
      return WrongTensor(tensor, "it takes over {} bytes", kOnnxTensorBytesMax);
    }
    elements *= static_cast<uint64_t>(extent);
  }
  const uint64_t bytes = bits < 8 ? (elements + 1) / 2 : elements * static_cast<uint64_t>(bits / 8);
  if (bytes > kOnnxTensorBytesMax) {
    return WrongTensor(tensor, "it takes over {} bytes", kOnnxTensorBytesMax);
  }
  return bytes;
}

absl::StatusOr<uint64_t> NumberIn(const OnnxTensor& tensor, std::optional<std::string_view> text,
                                  uint64_t otherwise) {
  if (!text) return otherwise;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) {
    return WrongTensor(tensor, "\"{:.100}\" is no offset or length", *text);
  }
  return number;
}

absl::StatusOr<std::string> ExternalBytes(const OnnxTensor& tensor, const DataFolders& folders,
                                          uint64_t taken) {
  const auto offset = NumberIn(tensor, tensor.offset, 0);
  if (!offset.ok()) return offset.status();
  const auto length = NumberIn(tensor, tensor.length, taken);
  if (!length.ok()) return length.status();
  if (*length != taken) {
    return WrongTensor(tensor, "its external data has {} bytes, its shape takes {}", *length,
                       taken);
  }
  auto bytes = ReadExternalData(folders, tensor.location, *offset, taken);
  if (!bytes.ok()) return WrongTensor(tensor, "{}", std::string(bytes.status().message()));
  return bytes;
}

}  // namespace

std::optional<DType> DTypeOfOnnx(int64_t type) {
  return type < 0 || type >= std::ssize(kTypes) ? std::nullopt : kTypes[static_cast<size_t>(type)];
}

absl::StatusOr<std::string> BytesOf(const OnnxTensor& tensor, const DataFolders& folders) {
  const DType type = *DTypeOfOnnx(tensor.type);
  const auto taken = BytesTaken(tensor, FactsOf(type).bits);
  if (!taken.ok()) return taken.status();
  if (tensor.has_segment) return WrongTensor(tensor, "it is a part of a tensor");
  if (tensor.is_external) return ExternalBytes(tensor, folders, *taken);
  std::string bytes = tensor.raw ? std::string(*tensor.raw) : TypedBytes(tensor, type);
  if (bytes.size() != *taken) {
    return WrongTensor(tensor, "its data has {} bytes, its shape takes {}", bytes.size(), *taken);
  }
  return bytes;
}

}  // namespace kiln::graph
