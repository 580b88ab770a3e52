#include "client/cli/output/console.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cli {
namespace {

// The codes of ECMA-48, in the order of Style.
constexpr std::string_view kCodes[] = {"", "1", "2", "32", "33", "31"};

}  // namespace

std::string Console::Styled(std::string_view text, Style style) const {
  if (!color || style == Style::kPlain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(style)], text);
}

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too, and stand in UTF-8 as C2 80 to C2 9F.
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || is_c1) {
      printable += fmt::format("\\x{:02x}", byte);
      if (is_c1) printable += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      printable += text[i];
    }
  }
  return printable;
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace kiln::cli
