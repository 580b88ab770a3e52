// Rows of text, and lists of names and values: aligned for people, tab-separated for pipes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/output/console.h"

namespace kiln::cli {

struct Column {
  std::string title;
  bool is_right_aligned = false;
  // Long texts are cut where the terminal has no room for them.
  bool is_elastic = false;
};

struct Cell {
  Cell(std::string cell_text, Style cell_style = Style::kPlain)
      : text(std::move(cell_text)), style(cell_style) {}

  std::string text;
  Style style;
};

// The first rows decide the widths. They are held back until Flush, or until there are enough of
// them; later rows are printed at once, so memory is bounded. Into a pipe: tabs, no titles, nothing
// held back.
class Table {
 public:
  static constexpr size_t kRowsHeldBack = 100;

  // REQUIRES: the console outlives the table.
  Table(Console& console, std::vector<Column> columns);

  // REQUIRES: as many cells as columns.
  void AddRow(std::vector<Cell> cells);
  // Prints what is held back.
  void Flush();

 private:
  void PrintAligned(const std::vector<Cell>& cells);
  // Takes from the widest elastic column until a line fits the terminal.
  void FitTerminal();
  void PrintTabbed(const std::vector<Cell>& cells);

  Console& console_;
  const std::vector<Column> columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<Cell>> held_back_;
  bool is_started_ = false;
};

using Fields = std::vector<std::pair<std::string, std::string>>;

// Under a title, indented and aligned, for a person. Leaves out empty values.
void PrintFields(Console& console, std::string_view title, const Fields& fields);

// A line each, tab-separated, for a program.
void PrintTabbed(Console& console, const Fields& fields);

// Whether a table with many columns has to leave some out.
[[nodiscard]] bool IsNarrowTerminal(const Console& console);
// How many digits of a key a table shows. Pipes get all of them.
[[nodiscard]] size_t KeyDigitsShown(const Console& console);

}  // namespace kiln::cli
