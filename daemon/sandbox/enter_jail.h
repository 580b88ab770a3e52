// How a worker in C++ confines itself. kiln_triton_worker/jail.py does the same in Python.
#pragma once

#include <string>
#include <vector>

#include "daemon/sandbox/jail_description.h"

namespace kiln {

// Sets the limits of this process and of all that it starts. What could not be set, in words for
// the operator; empty where all is well.
[[nodiscard]] std::vector<std::string> SetLimits(const WorkerLimits& limits);

// Confines this process, and all that it starts, for good: no capabilities, no new privileges, the
// files and system calls that `jail` lists and no others. What could not be done, in words for the
// operator; empty where all is well. Goes as far as it gets.
//
// Call it in a process with one thread, before it reads anything from someone who is not trusted.
// What it will need of /proc must be open by then. Does not concern descriptors that are open:
// close what the worker should not have.
[[nodiscard]] std::vector<std::string> EnterJail(const JailDescription& jail);

// Takes from this thread, and from all that it will start, the right to set times of files that a
// jail with JailNeeds::dates_files has left; where there is no such jail there is nothing to take.
// Makes a single system call, so that a child may do it before it becomes another program. False,
// with errno, where it did not work.
[[nodiscard]] bool RefuseDating();

}  // namespace kiln
