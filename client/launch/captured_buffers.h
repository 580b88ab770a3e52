// Which buffers a launch refers to.
#pragma once

#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/graph_registry.h"
#include "client/launch/kernel.h"
#include "client/launch/launch_plan.h"

namespace kiln::launch {

// The buffers that a launch's arguments lead to, as far as they can be seen: pointers, and each
// eight bytes of a tensor map (which holds its tensor's address) or of anything that a plain kernel
// takes, whose pointers are numbers to its binary, where the driver knows them for an address.
// What memory refers to itself, and parameters of an unknown type, are not looked into. How long a
// buffer is nobody says, so each counts as its first byte.
//
// Asks the driver nothing that a capture does not bear.
std::vector<GraphRegistry::Buffer> CapturedBuffers(Driver& driver, const Kernel& kernel,
                                                   const LaunchCall& call);

}  // namespace kiln::launch
