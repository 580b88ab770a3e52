#include "daemon/toolchain/version.h"

#include <algorithm>
#include <charconv>

namespace kiln {

Version::Version(std::string_view text) {
  while (!text.empty()) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) break;
    release_.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const bool another = text.size() > 1 && text[0] == '.' && text[1] >= '0' && text[1] <= '9';
    if (!another) break;
    text.remove_prefix(1);
  }
  suffix_ = text;
}

std::strong_ordering Version::CompareRelease(const Version& other) const {
  const size_t size = std::max(release_.size(), other.release_.size());
  for (size_t i = 0; i < size; ++i) {
    const uint64_t mine = i < release_.size() ? release_[i] : 0;
    const uint64_t theirs = i < other.release_.size() ? other.release_[i] : 0;
    if (mine != theirs) return mine <=> theirs;
  }
  return std::strong_ordering::equal;
}

// Whether the suffix makes a version earlier (rc1, a2, .dev3) or later (.post1, +local).
int Version::SuffixRank() const {
  if (suffix_.empty()) return 0;
  return suffix_[0] == '+' || suffix_.compare(0, 5, ".post") == 0 ? 1 : -1;
}

std::strong_ordering operator<=>(const Version& a, const Version& b) {
  if (const auto order = a.CompareRelease(b); order != 0) return order;
  if (const auto order = a.SuffixRank() <=> b.SuffixRank(); order != 0) return order;
  return a.suffix_.compare(b.suffix_) <=> 0;
}

}  // namespace kiln
