#include "storage/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace kiln {
namespace {

// The bytes of a character at the beginning of `text` that is not to be shown.
size_t HiddenBytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  if (at(0) < 0x20 || at(0) == 0x7F) return 1;
  if (at(0) == 0xC2 && at(1) != 0 && at(1) < 0xA0) return 2;
  const int end = at(0) == 0xE2 ? at(1) << 8 | at(2) : 0;
  const bool turns = (end >= 0x80AA && end <= 0x80AE) || (end >= 0x81A6 && end <= 0x81A9);
  return turns ? 3 : 0;  // U+202A to U+202E, U+2066 to U+2069
}

}  // namespace

void AppendPrintable(std::string& out, std::string_view text, std::string_view escaped) {
  while (!text.empty()) {
    const size_t hidden = HiddenBytes(text);
    for (const char byte : text.substr(0, hidden)) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    if (hidden == 0 && escaped.find(text.front()) != std::string_view::npos) out += '\\';
    if (hidden == 0) out += text.front();
    text.remove_prefix(std::max<size_t>(hidden, 1));
  }
}

}  // namespace kiln
