#include "client/cli/output/console.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cli {
namespace {

// The codes of ECMA-48, in the order of Style.
constexpr std::string_view kCodes[] = {"", "1", "2", "32", "33", "31"};

// The bytes of a character at the beginning of `text` that is not to be shown: control characters,
// U+0080 to U+009F among them, and those that turn the direction of text.
size_t HiddenBytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  if (at(0) < 0x20 || at(0) == 0x7F) return 1;
  if (at(0) == 0xC2 && at(1) != 0 && at(1) < 0xA0) return 2;
  const int end = at(0) == 0xE2 ? at(1) << 8 | at(2) : 0;
  const bool turns = (end >= 0x80AA && end <= 0x80AE) || (end >= 0x81A6 && end <= 0x81A9);
  return turns ? 3 : 0;  // U+202A to U+202E, U+2066 to U+2069
}

}  // namespace

std::string Console::Styled(std::string_view text, Style style) const {
  if (!color || style == Style::kPlain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(style)], text);
}

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const size_t hidden = HiddenBytes(text);
    for (const char byte : text.substr(0, hidden)) {
      printable += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    if (hidden == 0) printable += text.front();
    text.remove_prefix(std::max<size_t>(hidden, 1));
  }
  return printable;
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string Shortened(std::string_view text, size_t columns) {
  if (DisplayWidth(text) <= columns) return std::string(text);
  size_t bytes = 0;
  for (size_t shown = 0; shown < columns; ++shown) {
    if (shown + 1 == columns) return std::string(text.substr(0, bytes)) + "…";
    do ++bytes;
    while ((static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80);
  }
  return "";
}

}  // namespace kiln::cli
