#include "client/cli/fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cli {

void PrintFields(Console& console, std::string_view title, const Fields& fields) {
  size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, name.size());
  if (console.aligned) console.out << console.Styled(title, Style::kBold) << '\n';
  for (const auto& [name, value] : fields) {
    if (value.empty()) continue;
    if (console.aligned) {
      console.out << fmt::format("  {:<{}}  {}\n", name, width, Printable(value));
    } else {
      console.out << fmt::format("{}\t{}\n", name, Printable(value));
    }
  }
}

}  // namespace kiln::cli
