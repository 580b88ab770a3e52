// The malloc of workers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// MLIR and LLVM allocate so much that a compile takes about an eighth less time with jemalloc than
// with the C library's malloc (docs/adr/0042). The results are the same.

// For the environment of programs that a worker starts, such as ptxas: the C library's malloc with
// pages of two megabytes, where the kernel gives them on request, taken 16 MB at a time and kept.
// Spares ptxas four of five page faults, and a twelfth to a fifth of its time.
inline constexpr char kProgramAllocation[] =
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216"
    ":glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824";

// Whether the daemon may run the file at `path`, which a search of `directory` has found.
using MayRun = std::function<absl::Status(const std::string& directory, const std::string& path)>;

// The library's path: in `beside`, where a relocated installation has its libraries, or in one of
// the system's directories. "" where it is not installed, `may_run` refuses it, or the loader takes
// no such path.
std::string FindJemalloc(const std::string& beside, const MayRun& may_run);

// NAME=value for the environment of a process: it and its forks use `library`, and the programs
// that they start use kProgramAllocation. Empty where `library` is "".
std::vector<std::string> AllocatorEnvironment(const std::string& library);

}  // namespace kiln
