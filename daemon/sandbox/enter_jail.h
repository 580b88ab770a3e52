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

// Takes from this thread, and from all that it starts, the right to set times of files, which a
// jail with JailNeeds::dates_files leaves. Does nothing in other processes. Makes one system call,
// so a child may call it before exec. False, with errno, after an error.
[[nodiscard]] bool RefuseDating();

}  // namespace kiln
