// Why toolchains were passed over, for the one who asked.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// `text` for a message: other characters than printable ASCII become '?', as they take three times
// their size on the wire, and what is longer than `bytes_max` ends with "...".
std::string ShortAscii(std::string_view text, size_t bytes_max);

// A list of candidates with the reason against each, short enough for a status message: what is too
// long is cut, and past limits::kDecisionLogBytesMax candidates are only counted. Plain ASCII,
// since everything else takes three times its size on the wire. Not thread-safe.
class DecisionLog {
 public:
  // Without a reason where that is "".
  void Add(std::string_view candidate, std::string_view reason);

  // "a: reason; b; and 2 more"
  std::string ToString() const;

 private:
  std::string text_;
  size_t omitted_ = 0;
};

}  // namespace kiln
