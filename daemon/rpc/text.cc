#include "daemon/rpc/text.h"

#include <cstdint>

namespace kiln {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// How many bytes of well-formed UTF-8 `text` begins with as one character (Unicode, table 3-7); 0
// for none.
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  if (first == 0xE0 && at(1) < 0xA0) return 0;  // overlong
  if (first == 0xED && at(1) > 0x9F) return 0;  // a surrogate
  if (first == 0xF0 && at(1) < 0x90) return 0;  // overlong
  if (first == 0xF4 && at(1) > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

bool IsAscii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

std::string ToUtf8(std::string_view text) {
  if (IsAscii(text)) return std::string(text);
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    clean += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

std::string Excerpt(std::string_view name) {
  constexpr size_t kExcerptBytesMax = 64;
  if (name.size() <= kExcerptBytesMax) return ToUtf8(name);
  return ToUtf8(name.substr(0, kExcerptBytesMax)) + "…";
}

std::string CutForTrailer(std::string_view text, size_t bytes_max) {
  const std::string clean = ToUtf8(text);
  std::string_view rest = clean;
  size_t encoded = 0;
  while (!rest.empty()) {
    const size_t length = CharacterBytes(rest);
    const bool is_plain = rest[0] >= ' ' && rest[0] <= '~' && rest[0] != '%';
    encoded += is_plain ? 1 : 3 * length;
    if (encoded > bytes_max) break;
    rest.remove_prefix(length);
  }
  return clean.substr(0, clean.size() - rest.size());
}

}  // namespace kiln
