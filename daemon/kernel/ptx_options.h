// The flags of ptxas that a request may give for what Triton has it assemble.
#pragma once

#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// Checks Triton's option `ptx_options`, which goes onto ptxas's command line word by word. OK where
// it has nothing but known flags and plain values for them; INVALID_ARGUMENT otherwise. Whatever
// else ptxas takes, of this release or the next, may name files, take more cores than a compile is
// given, or have it do something else. The same flags are options of PTX
// (native_worker/ptxas_options.cc), which has them by name.
absl::Status CheckPtxOptions(std::string_view text);

}  // namespace kiln
