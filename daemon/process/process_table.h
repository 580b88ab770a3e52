// What /proc says of processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// The children of this process, zombies included; none on a kernel without CONFIG_PROC_CHILDREN. An
// error where they cannot be looked for, as where descriptors are lacking.
absl::StatusOr<std::vector<pid_t>> ChildProcesses();

// Threads of the whole machine; never 0.
uint64_t RunningThreads();

}  // namespace kiln
