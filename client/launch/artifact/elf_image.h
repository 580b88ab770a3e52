// Checks that a binary is a whole ELF file.
#pragma once

#include <string_view>

#include "client/launch/artifact/status.h"

namespace kiln::launch {

// GPU drivers take an image without its length and trust its headers: they read past the end of a
// truncated image. INVALID_ARGUMENT: not a 64-bit ELF file, or its headers point outside.
Status CheckElfImage(std::string_view image);

}  // namespace kiln::launch
