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

// The worker, what it has started, and what of that has lost its parent, which the zygote has
// become: the first `most` of them.
std::vector<pid_t> ProcessesOf(pid_t worker, pid_t zygote, size_t most);

// Threads of these; stops counting at `most`.
uint64_t CountThreads(const std::vector<pid_t>& processes, uint64_t most);

// Threads of the whole machine; never 0.
uint64_t RunningThreads();

}  // namespace kiln
