// A request's options as arguments of a command line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/kernel/command_option.h"
#include "daemon/kernel/kernel.h"
#include "storage/base/status.h"

namespace kiln {

// {"type": …} with a default where leaving it out is the same as giving that; as --describe prints
// it.
nlohmann::json Declare(const CommandOption& option);

// The arguments for `options`, each one whole ("--name=value"), in the order of the options' names.
// INVALID_ARGUMENT for an option that is not in `known`, or a value that it does not take: nothing
// else ever reaches a command line.
absl::StatusOr<std::vector<std::string>> ArgumentsFor(const std::vector<CommandOption>& known,
                                                      const Options& options);

}  // namespace kiln
