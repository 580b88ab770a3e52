#include "client/cli/output/fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cli {

void PrintFields(Console& console, std::string_view title, const Fields& fields) {
  size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, name.size());
  console.out << console.Styled(title, Style::kBold) << '\n';
  for (const auto& [name, value] : fields) {
    if (value.empty()) continue;
    console.out << fmt::format("  {:<{}}  {}\n", name, width, Printable(value));
  }
}

void PrintTabbed(Console& console, const std::vector<std::pair<std::string, std::string>>& fields) {
  for (const auto& [name, value] : fields) {
    console.out << Printable(name) << '\t' << Printable(value) << '\n';
  }
}

}  // namespace kiln::cli
