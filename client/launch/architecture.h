// Whether a kernel runs on a device.
#pragma once

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"

namespace kiln::launch {

// FAILED_PRECONDITION, with both named. CUDA: a kernel for 8.0 runs on 8.6 as well, one for 9.0a on
// 9.0 alone, one for 10.0f on 10.0 and 10.3; from 9.0 on Triton compiles for the very architecture,
// without saying so in its name. HIP: a kernel for gfx942 runs on every gfx942, one for
// gfx942:xnack+ on those with that feature on; "gfx942:sramecc+:xnack-" is what a device says.
Status CheckArchitecture(const KernelMetadata& kernel, std::string_view driver_backend,
                         const DeviceFacts& device);

}  // namespace kiln::launch
