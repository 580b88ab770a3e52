// What the HIP runtime (ROCm 6.0 and later) alone has of its binary interface.
#pragma once

#include "client/launch/driver/abi.h"

namespace kiln::launch::hip {

using namespace abi;  // NOLINT: all of it is this runtime's too

enum DeviceAttribute : int {
  kL2CacheSize = 19,
  kMaxGridDimX = 29,  // and Y, Z after it
  kMaxThreadsPerBlock = 56,
  kMaxSharedMemoryPerBlock = 74,
  kWarpSize = 87,
};

// Only the architecture's name is read from hipDeviceProp_tR0600: no attribute has it. There is
// room for fields that later versions append.
inline constexpr size_t kArchitectureNameOffset = 1160;
inline constexpr size_t kArchitectureNameBytes = 256;
struct alignas(8) DeviceProperties {
  char bytes[8192];
};

#define KILN_HIP_FUNCTIONS(REQUIRED, OPTIONAL)                                                     \
  REQUIRED(hipGetErrorName, const char*(Result))                                                   \
  REQUIRED(hipGetErrorString, const char*(Result))                                                 \
  REQUIRED(hipGetLastError, Result())                                                              \
  REQUIRED(hipGetDeviceCount, Result(int*))                                                        \
  REQUIRED(hipSetDevice, Result(int))                                                              \
  REQUIRED(hipGetDevicePropertiesR0600, Result(DeviceProperties*, int))                            \
  REQUIRED(hipModuleLoadData, Result(Handle*, const void*))                                        \
  REQUIRED(hipModuleGetFunction, Result(Handle*, Handle, const char*))                             \
  REQUIRED(hipModuleLaunchKernel, Result(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                         unsigned, unsigned, Handle, void**, void**))              \
  REQUIRED(hipModuleLaunchCooperativeKernel,                                                       \
           Result(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
                  Handle, void**))                                                                 \
  OPTIONAL(hipDrvLaunchKernelEx, Result(const LaunchConfig*, Handle, void**, void**))

struct Functions {
#define KILN_HIP_MEMBER(name, ...) EntryPoint<__VA_ARGS__> name;
  KILN_HIP_FUNCTIONS(KILN_HIP_MEMBER, KILN_HIP_MEMBER)
#undef KILN_HIP_MEMBER
};

}  // namespace kiln::launch::hip
