// What the CUDA driver alone has of its binary interface.
#pragma once

#include "client/launch/driver/abi.h"

namespace kiln::launch::cuda {

using namespace abi;  // NOLINT: all of it is this driver's too

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxGridDimX = 5,  // and Y, Z after it
  kWarpSize = 10,
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kCooperativeLaunch = 95,
  kMaxSharedMemoryPerBlockOptin = 97,
};

inline constexpr int kFunctionMaxDynamicSharedSizeBytes = 8;
inline constexpr int kFunctionNonPortableClusterSizeAllowed = 14;
inline constexpr int kCachePreferShared = 1;
inline constexpr int kLibraryBinaryIsPreserved = 1;
inline constexpr int kAttributeClusterSchedulingPolicyPreference = 5;
inline constexpr int kClusterSchedulingPolicySpread = 1;
inline constexpr int kAttributeProgrammaticStreamSerialization = 6;
inline constexpr int kTensorMapL2Promotion128B = 2;

#define KILN_CUDA_FUNCTIONS(REQUIRED, OPTIONAL)                                                   \
  REQUIRED(cuGetErrorName, Result(Result, const char**))                                          \
  REQUIRED(cuGetErrorString, Result(Result, const char**))                                        \
  REQUIRED(cuDeviceGet, Result(int*, int))                                                        \
  REQUIRED(cuDevicePrimaryCtxRetain, Result(Handle*, int))                                        \
  REQUIRED(cuCtxGetCurrent, Result(Handle*))                                                      \
  REQUIRED(cuCtxPushCurrent_v2, Result(Handle))                                                   \
  REQUIRED(cuCtxPopCurrent_v2, Result(Handle*))                                                   \
  REQUIRED(cuCtxGetId, Result(Handle, uint64_t*))                                                 \
  REQUIRED(cuLibraryLoadData,                                                                     \
           Result(Handle*, const void*, int*, void**, unsigned, int*, void**, unsigned))          \
  REQUIRED(cuLibraryGetKernel, Result(Handle*, Handle, const char*))                              \
  REQUIRED(cuKernelGetFunction, Result(Handle*, Handle))                                          \
  REQUIRED(cuFuncSetAttribute, Result(Handle, int, int))                                          \
  REQUIRED(cuFuncSetCacheConfig, Result(Handle, int))                                             \
  REQUIRED(cuLaunchKernelEx, Result(const LaunchConfig*, Handle, void**, void**))                 \
  OPTIONAL(cuOccupancyMaxActiveBlocksPerMultiprocessor, Result(int*, Handle, int, size_t))        \
  OPTIONAL(cuFuncLoad, Result(Handle))                                                            \
  OPTIONAL(cuFuncGetParamInfo, Result(Handle, size_t, size_t*, size_t*))                          \
  OPTIONAL(cuTensorMapEncodeTiled,                                                                \
           Result(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, \
                  const uint32_t*, int, int, int, int))

struct Functions {
#define KILN_CUDA_MEMBER(name, ...) EntryPoint<__VA_ARGS__> name;
  KILN_CUDA_FUNCTIONS(KILN_CUDA_MEMBER, KILN_CUDA_MEMBER)
#undef KILN_CUDA_MEMBER
};

}  // namespace kiln::launch::cuda
