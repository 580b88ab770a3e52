#include "client/graph/operators/constant_elements.h"

#include <cassert>
#include <cstring>

namespace kiln::graph {
namespace {

thread_local std::vector<const Value*>* asked = nullptr;

template <typename T>
std::vector<double> AsNumbers(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(element);
  }
  return numbers;
}

}  // namespace

AskedConstants::AskedConstants() {
  assert(asked == nullptr);
  asked = &values_;
}
AskedConstants::~AskedConstants() { asked = nullptr; }

std::optional<std::vector<double>> ConstantElements(const Value& value) {
  if (!value.is_constant || !value.bytes) return std::nullopt;
  if (asked != nullptr) asked->push_back(&value);
  switch (value.type) {
    case DType::kBool:
    case DType::kU8:
      return AsNumbers<uint8_t>(*value.bytes);
    case DType::kI8:
      return AsNumbers<int8_t>(*value.bytes);
    case DType::kI16:
      return AsNumbers<int16_t>(*value.bytes);
    case DType::kU16:
      return AsNumbers<uint16_t>(*value.bytes);
    case DType::kI32:
      return AsNumbers<int32_t>(*value.bytes);
    case DType::kU32:
      return AsNumbers<uint32_t>(*value.bytes);
    case DType::kI64:
      return AsNumbers<int64_t>(*value.bytes);
    case DType::kU64:
      return AsNumbers<uint64_t>(*value.bytes);
    case DType::kF32:
      return AsNumbers<float>(*value.bytes);
    case DType::kF64:
      return AsNumbers<double>(*value.bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace kiln::graph
