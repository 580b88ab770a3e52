#include "client/cli/output/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "client/cli/output/enum_names.h"

namespace kiln::cli {
namespace {

constexpr std::string_view kGap = "  ";
constexpr size_t kElasticWidthMin = 8;

}  // namespace

Table::Table(Console& console, std::vector<Column> columns)
    : console_(console), columns_(std::move(columns)) {
  for (const Column& column : columns_) widths_.push_back(DisplayWidth(column.title));
}

void Table::AddRow(std::vector<Cell> cells) {
  assert(cells.size() == columns_.size());
  for (Cell& cell : cells) cell.text = Printable(cell.text);
  if (!console_.aligned) return PrintTabbed(cells);
  if (is_started_) return PrintAligned(cells);
  // One long name must not push everything else off the screen. FitTerminal does that where the
  // width is known.
  constexpr size_t kWidthMax = 60;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool is_fitted = console_.columns > 0 && columns_[i].is_elastic;
    const size_t width = DisplayWidth(cells[i].text);
    widths_[i] = std::max(widths_[i], is_fitted ? width : std::min(width, kWidthMax));
  }
  held_back_.push_back(std::move(cells));
  if (held_back_.size() == kRowsHeldBack) Flush();
}

void Table::Flush() {
  if (held_back_.empty()) return;
  if (!is_started_) {
    FitTerminal();
    std::vector<Cell> titles;
    for (const Column& column : columns_) titles.emplace_back(column.title, Style::kBold);
    PrintAligned(titles);
    is_started_ = true;
  }
  for (const auto& cells : held_back_) PrintAligned(cells);
  held_back_.clear();
}

void Table::FitTerminal() {
  size_t width = kGap.size() * (columns_.size() - 1);
  for (const size_t one : widths_) width += one;
  for (; console_.columns > 0 && width > console_.columns; --width) {
    size_t* widest = nullptr;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].is_elastic && (widest == nullptr || widths_[i] > *widest)) {
        widest = &widths_[i];
      }
    }
    if (widest == nullptr || *widest <= kElasticWidthMin) return;
    --*widest;
  }
}

void Table::PrintAligned(const std::vector<Cell>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool is_cut = console_.columns > 0 && columns_[i].is_elastic;
    const std::string shown = is_cut ? Shortened(cells[i].text, widths_[i]) : cells[i].text;
    const size_t width = DisplayWidth(shown);
    const std::string padding(widths_[i] > width ? widths_[i] - width : 0, ' ');
    const std::string text = console_.Styled(shown, cells[i].style);
    const bool is_last = i + 1 == cells.size();
    if (columns_[i].is_right_aligned) {
      line += padding + text;
    } else {
      line += is_last ? text : text + padding;
    }
    if (!is_last) line += kGap;
  }
  while (line.ends_with(' ')) line.pop_back();
  console_.out << line << '\n';
}

void Table::PrintTabbed(const std::vector<Cell>& cells) {
  for (size_t i = 0; i < cells.size(); ++i) console_.out << (i == 0 ? "" : "\t") << cells[i].text;
  console_.out << '\n';
}

void PrintFields(Console& console, std::string_view title, const Fields& fields) {
  size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, name.size());
  console.out << console.Styled(title, Style::kBold) << '\n';
  for (const auto& [name, value] : fields) {
    if (value.empty()) continue;
    console.out << fmt::format("  {:<{}}  {}\n", name, width, Printable(value));
  }
}

void PrintTabbed(Console& console, const Fields& fields) {
  for (const auto& [name, value] : fields) {
    console.out << Printable(name) << '\t' << Printable(value) << '\n';
  }
}

bool IsNarrowTerminal(const Console& console) {
  constexpr size_t kWideColumns = 110;
  return console.columns > 0 && console.columns < kWideColumns;
}

size_t KeyDigitsShown(const Console& console) {
  if (!console.aligned) return std::string::npos;
  return IsNarrowTerminal(console) ? 8 : kFingerprintDigitsShown;
}

}  // namespace kiln::cli
