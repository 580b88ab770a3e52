// Whether a kernel runs on a device.
#pragma once

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"

namespace kiln::launch {

// FAILED_PRECONDITION: it does not; the message names both architectures. CUDA: a kernel for 8.0
// also runs on 8.6, a kernel for 9.0a only on 9.0, a kernel for 10.0f on 10.0 and 10.3. From 9.0
// on, a kernel from Triton only runs on its own architecture, whatever its name. HIP: a kernel for
// gfx942 runs on every gfx942, a kernel for gfx942:xnack+ only with that feature. A device's
// architecture is "gfx942:sramecc+:xnack-".
Status CheckArchitecture(const KernelMetadata& kernel, std::string_view driver_backend,
                         const DeviceFacts& device);

}  // namespace kiln::launch
