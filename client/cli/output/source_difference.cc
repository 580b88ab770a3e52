#include "client/cli/output/source_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <regex>
#include <span>
#include <sstream>
#include <utility>

namespace kiln::cli {
namespace {

constexpr size_t kShownLinesMax = 3;
constexpr size_t kShownBytesMax = 100;
constexpr size_t kBytesBeforeDifference = 40;
constexpr int kLocationDepthMax = 8;
constexpr size_t kLocationBytesMax = 4096;

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

// The part of a line with its first difference to another.
std::string DifferentPart(const std::string& line, const std::string& other) {
  const auto [at, _] = std::ranges::mismatch(line, other);
  const auto before = static_cast<size_t>(at - line.begin());
  if (before < kShownBytesMax - kBytesBeforeDifference) {
    return line.substr(0, kShownBytesMax);
  }
  return "…" + line.substr(before - kBytesBeforeDifference, kShownBytesMax);
}

// "train.py:31", what a location of Triton IR says, such as `loc("train.py":31:8)`; "" where it
// says nothing. It may name others, as `#loc7 = loc("train.py":31:8)` at the end of the text.
std::string PlaceOf(std::string location, const std::string& text) {
  static const std::regex place(R"re("([^"]+)":([0-9]+):[0-9]+)re");
  static const std::regex reference(R"(#loc[0-9]*)");
  for (int depth = 0; depth < kLocationDepthMax; ++depth) {
    location.resize(std::min(location.size(), kLocationBytesMax));  // the search recurses
    std::smatch match;
    if (std::regex_search(location, match, place)) return match[1].str() + ":" + match[2].str();
    if (!std::regex_search(location, match, reference)) break;
    const std::string definition = "\n" + match.str() + " = loc(";
    const size_t found = text.find(definition);
    if (found == std::string::npos) break;
    const size_t value = found + definition.size();
    location = text.substr(value, text.find('\n', value) - value);
  }
  return "";
}

std::string LocationIn(const std::string& line) {
  const size_t begin = line.rfind(" loc(");
  return begin == std::string::npos ? "" : line.substr(begin);
}

// Whether the line of Triton IR has the value: "%cst", and not "%cst_0".
bool Uses(const std::string& line, const std::string& value) {
  for (size_t at = line.find(value); at != std::string::npos; at = line.find(value, at + 1)) {
    const size_t end = at + value.size();
    const auto next = static_cast<unsigned char>(end < line.size() ? line[end] : ' ');
    if (std::isalnum(next) == 0 && next != '_') return true;
  }
  return false;
}

// Where a line of Triton IR comes from in the program; of a constant, whose own place Triton does
// not keep, where it is first used. "" where nothing says it.
std::string ProgramPlace(const std::vector<std::string>& lines, size_t at,
                         const std::string& text) {
  const std::string own = PlaceOf(LocationIn(lines[at]), text);
  const size_t equals = lines[at].find(" = ");
  const size_t begin = lines[at].find('%');
  if (!own.empty() || begin == std::string::npos || equals == std::string::npos) return own;
  const std::string value = lines[at].substr(begin, equals - begin);
  for (size_t i = at + 1; i < lines.size(); ++i) {
    if (Uses(lines[i], value)) return PlaceOf(LocationIn(lines[i]), text);
  }
  return "";
}

}  // namespace

std::vector<std::string> DifferentLines(const std::string& asked, const std::string& stored) {
  const std::vector<std::string> mine = SplitLines(asked);
  const std::vector<std::string> others = SplitLines(stored);
  const auto begins = std::ranges::mismatch(mine, others);
  const auto ends = std::mismatch(mine.rbegin(), std::reverse_iterator(begins.in1), others.rbegin(),
                                  std::reverse_iterator(begins.in2));
  const std::span my_rest(begins.in1, ends.first.base());
  const std::span other_rest(begins.in2, ends.second.base());
  const auto first_line = static_cast<size_t>(begins.in1 - mine.begin()) + 1;
  std::vector<std::string> different;
  for (size_t i = 0; i < std::max(my_rest.size(), other_rest.size()); ++i) {
    const std::string mine_here = i < my_rest.size() ? my_rest[i] : "(no line)";
    const std::string other_here = i < other_rest.size() ? other_rest[i] : "(no line)";
    if (mine_here == other_here) continue;
    if (different.size() == 2 * kShownLinesMax) break;
    const size_t at = first_line - 1 + i;
    const std::string place = i < my_rest.size() ? ProgramPlace(mine, at, asked) : "";
    different.push_back(fmt::format("line {}{}: {}", first_line + i,
                                    place.empty() ? "" : fmt::format(" ({})", place),
                                    DifferentPart(mine_here, other_here)));
    different.push_back(fmt::format("  stored: {}", DifferentPart(other_here, mine_here)));
  }
  return different;
}

}  // namespace kiln::cli
