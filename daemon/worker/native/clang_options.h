// The options of clang that a request in OpenCL C may give.
#pragma once

#include <vector>

#include "daemon/kernel/command_option.h"

namespace kiln {

// Named as clang names them, where it has a word for them. Left out is what names files or
// plug-ins, what says only how clang should speak, what the target says already, and debugging
// information: what llvm-spirv makes of it, spirv-val often refuses. `entry` is Kiln's own: which
// kernel the metadata describes.
const std::vector<CommandOption>& ClangOptions();

}  // namespace kiln
