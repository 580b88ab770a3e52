// The flags of ptxas that a request may give.
#pragma once

#include <string_view>
#include <vector>

#include "daemon/kernel/command_option.h"
#include "storage/base/status.h"

namespace kiln {

// Named as ptxas names them; `maxnreg`, a launch parameter, is its --maxrregcount. Left out is what
// names files, what says only how ptxas should speak, what the target says already, and
// --split-compile, which would take more cores than a compile was admitted with.
const std::vector<CommandOption>& PtxasOptions();

// Checks Triton's option `ptx_options`, which goes onto ptxas's command line word by word. OK where
// it has nothing but PtxasOptions by their long or short names, --verbose, and plain values;
// INVALID_ARGUMENT otherwise. Any other flag, of this release or the next, may name files, take
// more cores than a compile is given, or have ptxas do something else.
absl::Status CheckPtxOptions(std::string_view text);

}  // namespace kiln
