// The malloc of Triton's workers.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// MLIR and LLVM allocate so much that a compile takes about an eighth less with jemalloc than with
// the C library's malloc (docs/adr/0042). What it gives is the same.

// The library as a path, where it is installed: in `beside`, which a carried installation has its
// libraries in, or where the system has its own. "": it is not.
std::string FindJemalloc(const std::string& beside);

// What has a process, and those that it forks, use that library: NAME=value for its environment.
// Nothing for "".
std::vector<std::string> AllocatorEnvironment(const std::string& library);

}  // namespace kiln
