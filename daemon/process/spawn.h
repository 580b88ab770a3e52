// Starts programs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

struct SpawnCommand {
  std::vector<std::string> arguments;    // the program's path first
  std::vector<std::string> environment;  // NAME=value: all of it, nothing is inherited
  std::string directory;                 // to start in
};

// The pid of a new process that leads its own session and process group, with /dev/null as its
// standard input, `output` as standard output and error, `inherited` (or nothing, when -1) as
// descriptor 3, and no other descriptor. The caller reaps it.
//
// The kernel ties "death of the parent" to the thread that calls this: a child that asks for a
// signal then gets it when that thread ends, so call it on one that lives as long as the child
// should.
absl::StatusOr<pid_t> Spawn(const SpawnCommand& command, int output, int inherited);

// A pidfd, readable once the process is dead; none where there is no such process. REQUIRES: nobody
// has reaped `pid`.
UniqueFd OpenProcess(pid_t pid);

// "SIGSEGV", "exit status 1": how a process ended, out of its wait status.
std::string DescribeWaitStatus(int wait_status);

// Waits for `pid`, a child of this process, or for all children in the group `-pid`, until
// `patience` is over; false when one lives still. `wait_status`, that of the last one, may be null.
bool ReapChild(pid_t pid, std::chrono::milliseconds patience, int* wait_status);

}  // namespace kiln
