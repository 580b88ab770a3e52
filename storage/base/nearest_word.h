// Which known word a mistyped one means.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// How many letters were added, left out, replaced or swapped with the next one. Case does not
// count.
inline size_t EditDistance(std::string_view a, std::string_view b) {
  const auto is_same = [&](size_t i, size_t j) {
    return std::tolower(static_cast<unsigned char>(a[i])) ==
           std::tolower(static_cast<unsigned char>(b[j]));
  };
  std::vector<std::vector<size_t>> of(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        of[i][j] = i + j;
        continue;
      }
      of[i][j] = std::min(
          {of[i - 1][j] + 1, of[i][j - 1] + 1, of[i - 1][j - 1] + (is_same(i - 1, j - 1) ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && is_same(i - 1, j - 2) && is_same(i - 2, j - 1);
      if (is_swap) of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
    }
  }
  return of[a.size()][b.size()];
}

// "" where no known word is near. What follows "=" is no part of the word.
template <typename Words>
std::string NearestWord(std::string_view word, const Words& known) {
  word = word.substr(0, word.find('='));
  constexpr size_t kWordBytesMax = 64;  // a longer one is no mistyped name
  if (word.size() > kWordBytesMax) return "";
  std::string nearest;
  size_t nearer_than = std::max<size_t>(word.size() < 4 ? 1 : 2, word.size() / 3) + 1;
  for (const auto& each : known) {
    // A word that was cut short is nearest: --opt means --option, not --root.
    const bool is_cut_short = word.size() > 3 && each.starts_with(word);
    const size_t distance = is_cut_short ? 0 : EditDistance(word, each);
    if (distance >= nearer_than) continue;
    nearest = each;
    nearer_than = distance;
  }
  return nearest;
}

// "; did you mean --target?", or "" where no known word is near.
template <typename Words>
std::string DidYouMean(std::string_view word, const Words& known) {
  const std::string nearest = NearestWord(word, known);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace kiln
