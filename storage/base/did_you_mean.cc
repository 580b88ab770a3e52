#include "storage/base/did_you_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace kiln {
namespace {

// Levenshtein's distance: insertions, deletions and replacements.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string DidYouMean(std::string_view given, std::span<const std::string> known) {
  // A longer text is no mistyped name, and comparing it costs its length.
  constexpr size_t kNameBytesMax = 64;
  if (given.size() > kNameBytesMax) return "";
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(2, given.size() / 3) + 1;
  // A prefix wins over another word of that length: --opt means --option, not --root.
  constexpr size_t kBeginningBytesMin = 4;
  for (const std::string& name : known) {
    const bool is_beginning = given.size() >= kBeginningBytesMin && name.starts_with(given);
    if (is_beginning) return fmt::format("; did you mean {}?", name);
  }
  for (const std::string& name : known) {
    const size_t distance = Distance(given, name);
    if (distance < least) {
      least = distance;
      nearest = &name;
    }
  }
  return nearest == nullptr ? "" : fmt::format("; did you mean {}?", *nearest);
}

}  // namespace kiln
