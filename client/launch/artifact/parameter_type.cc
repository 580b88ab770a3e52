#include "client/launch/artifact/parameter_type.h"

#include <charconv>

namespace kiln::launch {
namespace {

struct NamedBits {
  std::string_view name;
  size_t bits;
};
// Types that are not a letter and a number of bits.
constexpr NamedBits kNamedBits[] = {{"bf16", 16}, {"fp16", 16},  {"fp32", 32},
                                    {"fp64", 64}, {"index", 64}, {"pred", 8}};

// 0: not a number.
size_t NumberOf(std::string_view digits) {
  size_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && rest == end ? number : 0;
}

// "i32", "u64", "s8", "f16", "b128": bits, rounded up to whole bytes.
size_t BytesOfLetterAndBits(std::string_view type) {
  constexpr std::string_view kLetters = "iusfb";
  if (type.size() < 2 || kLetters.find(type.front()) == std::string_view::npos) return 0;
  const size_t bits = NumberOf(type.substr(1));
  return bits > 128 ? 0 : (bits + 7) / 8;
}

// "b8[128]".
size_t BytesOfArray(std::string_view type, size_t bracket) {
  if (type.back() != ']') return 0;
  const std::string_view count = type.substr(bracket + 1, type.size() - bracket - 2);
  return BytesOfType(type.substr(0, bracket)) * NumberOf(count);
}

}  // namespace

bool IsPointer(std::string_view type) {
  return type.starts_with("*") || type.starts_with("!tt.ptr<");
}

bool IsTensorMap(std::string_view type) {
  return type.starts_with("tensordesc<") || type.starts_with("!tt.tensordesc<") ||
         type == "nvTmaDesc";
}

size_t BytesOfType(std::string_view type) {
  if (IsPointer(type)) return sizeof(void*);
  if (IsTensorMap(type)) return kTensorMapBytes;
  for (const auto& [name, bits] : kNamedBits) {
    if (type == name) return bits / 8;
  }
  if (const size_t bracket = type.find('['); bracket != std::string_view::npos) {
    return BytesOfArray(type, bracket);
  }
  // Triton's "fp8e4nv" and MLIR's "f8E4M3FN".
  if (type.starts_with("fp8") || type.starts_with("f8E")) return 1;
  return BytesOfLetterAndBits(type);
}

}  // namespace kiln::launch
