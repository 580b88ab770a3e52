// Which system calls a jailed worker may make.
#pragma once

#include <vector>

#include "daemon/sandbox/jail_description.h"
#include "storage/base/status.h"

namespace kiln {

// The filter for this machine's architecture. A call that is not on the list fails with EPERM, and
// one of another architecture ends the process; docs/adr says why.
//
// `signals_are_scoped`: Landlock keeps a worker's signals to its own processes, so that it may send
// any.
//
// Compiles it anew each time, about 1 ms. INTERNAL where libseccomp refuses.
absl::StatusOr<std::vector<sock_filter>> CompileSystemCallFilter(bool signals_are_scoped);

}  // namespace kiln
