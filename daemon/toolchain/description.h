// What a toolchain says of itself.
#pragma once

#include <string_view>

#include "daemon/kernel/toolchain.h"

namespace kiln {

// Name, version, assembler, kinds, backends and hidden pointers of a Toolchain, from the JSON
// object that triton_worker.py --describe prints. FAILED_PRECONDITION, saying what is wrong, for
// any other bytes: nobody vouches for them.
absl::StatusOr<Toolchain> ParseDescription(std::string_view text);

}  // namespace kiln
