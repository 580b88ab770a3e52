#include "client/cli/output/console.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/base/utf8.h"

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
  AppendPrintable(printable, text);
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
