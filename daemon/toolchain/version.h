// Versions of Python packages, as far as putting them in order needs it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// "3.10.0" comes after "3.9.1", "3.6.0rc1" before "3.6.0", "3.6.0+local" and "3.6.0.post1" after
// it. Any text is a version; one that starts with no number comes first. A regular value type.
class Version {
 public:
  explicit Version(std::string_view text);

  // The numbers alone: 3.6.0rc1 is a 3.6.0 here. Missing ones count as zero.
  std::strong_ordering CompareRelease(const Version& other) const;
  friend std::strong_ordering operator<=>(const Version& a, const Version& b);
  friend bool operator==(const Version& a, const Version& b) { return (a <=> b) == 0; }

 private:
  int SuffixRank() const;

  std::vector<uint64_t> release_;
  std::string suffix_;
};

}  // namespace kiln
