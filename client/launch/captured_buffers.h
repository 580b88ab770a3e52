// Finds the buffers of a launch.
#pragma once

#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/graph_registry.h"
#include "client/launch/kernel.h"
#include "client/launch/launch_plan.h"

namespace kiln::launch {

// The buffers of a launch's arguments: pointers; each eight bytes of a tensor map, which holds its
// tensor's address; and, for a plain kernel, whose binary does not tell pointers from numbers, each
// eight bytes that the driver knows as an address. Does not look into memory, nor into parameters
// of unknown type. The length of a buffer is unknown, so each counts as its first byte.
//
// Only makes calls of the driver that are allowed under capture.
std::vector<GraphRegistry::Buffer> CapturedBuffers(Driver& driver, const Kernel& kernel,
                                                   const LaunchCall& call);

}  // namespace kiln::launch
