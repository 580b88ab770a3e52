// How a worker in C++ confines itself. kiln_triton_worker/jail.py does the same in Python.
#pragma once

#include <string>
#include <vector>

#include "daemon/sandbox/jail_description.h"

namespace kiln {

// Sets the limits of this process and of all that it starts. Returns what could not be set, in
// words for the operator.
[[nodiscard]] std::vector<std::string> SetLimits(const WorkerLimits& limits);

// Confines this process, and all that it starts, for good: no capabilities, no new privileges, only
// the files and system calls that `jail` lists. Returns what could not be done, in words for the
// operator; a failed step does not keep it from the next one.
//
// Call it in a process with one thread, before the process reads untrusted input. Files of /proc
// that are needed later must be open by then. Open descriptors stay usable: close those that the
// worker should not have.
[[nodiscard]] std::vector<std::string> EnterJail(const JailDescription& jail);

// Has stat find no file by its name, in this thread and in all that it starts: ptxas writes time
// and size of every source file that it finds into the line table. Files that are open still have a
// status. Makes two system calls, so a child may call it before exec. False, with errno, after an
// error, such as a kernel without filters.
bool RefuseStat();

}  // namespace kiln
