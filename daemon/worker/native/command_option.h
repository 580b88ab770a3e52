// Options of a command line that a request may give: a list, each with what it takes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "storage/base/status.h"

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
  Takes takes = Takes::kNothing;
  int64_t min = 0;
  int64_t max = 0;
  std::vector<std::string_view> words = {};
  // The program's own name for it where that is another.
  std::string_view argument = {};

  std::string_view Argument() const { return argument.empty() ? name : argument; }
};

// {"type": …} with a default where leaving it out is the same as giving that; as --describe prints
// it.
nlohmann::json Declare(const CommandOption& option);

// The arguments for `options`, each one whole ("--name=value"), in the order of the options' names.
// INVALID_ARGUMENT for an option that is not in `known`, or a value that it does not take: nothing
// else ever reaches a command line.
absl::StatusOr<std::vector<std::string>> ArgumentsFor(const std::vector<CommandOption>& known,
                                                      const Options& options);

}  // namespace kiln
