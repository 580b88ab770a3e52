#include "daemon/messages/text.h"

#include "storage/base/utf8.h"

namespace kiln {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string ToUtf8(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8CharacterBytes(text);
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
    const size_t length = Utf8CharacterBytes(rest);
    const bool is_plain = rest[0] >= ' ' && rest[0] <= '~' && rest[0] != '%';
    encoded += is_plain ? 1 : 3 * length;
    if (encoded > bytes_max) break;
    rest.remove_prefix(length);
  }
  return clean.substr(0, clean.size() - rest.size());
}

}  // namespace kiln
