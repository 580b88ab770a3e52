// Whether a binary is an ELF file that lies wholly within its bytes.
#pragma once

#include <string_view>

#include "client/launch/artifact/status.h"

namespace kiln::launch {

// GPU drivers take an image without its length and believe what its headers say, so a truncated one
// has them read past its end. INVALID_ARGUMENT: no 64-bit ELF file, or headers that point outside.
Status CheckElfImage(std::string_view image);

}  // namespace kiln::launch
