// The malloc of Triton's workers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// MLIR and LLVM allocate so much that a compile takes about an eighth less with jemalloc than with
// the C library's malloc (docs/adr/0042). What it gives is the same.

// For the environment of a program that a worker starts, ptxas before all: its own malloc, which
// takes pages of two megabytes where the kernel gives them on request. That spares ptxas two of
// three page faults, and a twelfth of its time.
inline constexpr char kProgramAllocation[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";

// Whether what is at a path, in a directory that was searched, may be run.
using MayRun = std::function<absl::Status(const std::string& directory, const std::string& path)>;

// The library as a path, where it is installed: in `beside`, which a carried installation has its
// libraries in, or where the system has its own. "": it is not, or `may_run` has something against
// it, or the loader takes no such path.
std::string FindJemalloc(const std::string& beside, const MayRun& may_run);

// What has a process, and those that it forks, use that library, and what these start its own
// malloc with large pages: NAME=value for its environment. Nothing for "".
std::vector<std::string> AllocatorEnvironment(const std::string& library);

}  // namespace kiln
