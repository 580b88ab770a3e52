// The options of NVRTC that a request may give.
#pragma once

#include <vector>

#include "daemon/kernel/command_option.h"

namespace kiln {

// Named as NVRTC names them; `maxnreg`, a launch parameter, is its --maxrregcount. Left out is what
// names files or directories, what only changes its messages, what the target says already, and
// --split-compile, which would take more cores than a compile was admitted with.
const std::vector<CommandOption>& NvrtcOptions();

}  // namespace kiln
