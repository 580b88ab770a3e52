// An option of a compiler's command line that a request may give.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kiln {

struct CommandOption {
  enum class Takes {
    kNothing,  // a flag: given or not
    kTruth,    // true or false
    kNumber,   // from min to max
    kWord,     // one of `words`
    kName,     // of a function
    kMacros,   // a tuple of NAME or NAME=VALUE: an argument for each
    kNumbers,  // a tuple of numbers from min to max, in one argument
  };

  std::string_view name;
  std::string_view short_name = {};
  Takes takes = Takes::kNothing;
  int64_t min = 0;
  int64_t max = 0;
  std::vector<std::string_view> words = {};
  // The program's own name for it where that is another.
  std::string_view argument = {};

  std::string_view Argument() const { return argument.empty() ? name : argument; }
};

}  // namespace kiln
