// A compiler that gives up on a source by ending its own process.
#pragma once

#include <optional>
#include <string_view>

#include "daemon/kernel/kernel.h"

namespace kiln {

// LLVM reports what it does not support ("LLVM ERROR: Conversion from/to f8e4m3nv is only supported
// on compute capability >= 89") and aborts. That looks like a crash, but it is an answer, and the
// same each time: INVALID_ARGUMENT with LLVM's words, at `stage` where that is known. Nothing where
// `output`, the end of what the compiler wrote, does not end in such words, or where they say that
// the machine gave out (memory, files) rather than the source.
std::optional<CompileFailure> DiagnoseAbort(std::string_view output, std::string_view stage);

}  // namespace kiln
