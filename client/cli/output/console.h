// Where a command writes, and what it may assume of the reader.
#pragma once

#include <chrono>
#include <ostream>
#include <string>
#include <string_view>

namespace kiln::cli {

enum class Style { kPlain, kBold, kDim, kGood, kNew, kBad };

struct Console {
  std::ostream& out;
  std::ostream& err;
  // A person reads `out`: aligned columns instead of tabs.
  bool aligned = false;
  // Styles may be used on `out` and `err`.
  bool color = false;
  // Progress may be drawn on `err`.
  bool progress = false;
  // The width of the terminal that `out` is; 0: it is none, and lines may be of any length.
  size_t columns = 0;
  // Between two lines of progress where none is drawn.
  std::chrono::milliseconds progress_interval = std::chrono::seconds(10);

  // `text` in a style, or as it is where there is no color.
  std::string Styled(std::string_view text, Style style) const;
};

// Control characters (escape sequences, line ends, tabs, and those that turn the direction of text)
// become \xNN: a kernel's name must not move the cursor or forge a row.
[[nodiscard]] std::string Printable(std::string_view text);

// The number of columns that `text` takes: one for each code point.
[[nodiscard]] size_t DisplayWidth(std::string_view text);

// `text` in at most so many columns; the last one is "…" where something is missing.
[[nodiscard]] std::string Shortened(std::string_view text, size_t columns);

}  // namespace kiln::cli
