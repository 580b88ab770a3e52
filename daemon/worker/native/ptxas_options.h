// Those of ptxas's options that a request may give.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "storage/base/status.h"

namespace kiln {

// Declarations of the options, as --describe prints them, of a ptxas whose --help says `help`. They
// are named as ptxas names them; `maxnreg`, a launch parameter, is its --maxrregcount. Left out is
// what names files, what says only how ptxas should speak, what the target says already, and
// --split-compile, which would take more cores than a compile was admitted with.
nlohmann::json DescribePtxasOptions(std::string_view help);

// The arguments, one for each option, in the order of the options' names. INVALID_ARGUMENT for an
// option or a value that is not on the list: nothing else ever reaches a command line.
absl::StatusOr<std::vector<std::string>> PtxasArguments(const Options& options);

}  // namespace kiln
