// The devices of all OpenCL platforms.
#pragma once

#include <string_view>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/driver/opencl_calls.h"

namespace kiln::launch {

struct OpenClDevice {
  opencl::Handle platform = nullptr;
  opencl::Handle id = nullptr;
  // Its architecture is the newest version of SPIR-V that the device takes; empty: none.
  DeviceFacts facts;
  // Null functions: the device has neither unified shared memory nor SVM.
  opencl::MemoryFunctions memory;
};

// In the order of the loader's platforms, and of each platform's devices, from 0. UNAVAILABLE:
// there is none.
StatusOr<std::vector<OpenClDevice>> ListOpenClDevices(const OpenClCalls& calls);

// The newest version in a list of intermediate languages: "1.4" of "SPIR-V_1.0 SPIR-V_1.4".
std::string NewestSpirv(std::string_view languages);

}  // namespace kiln::launch
