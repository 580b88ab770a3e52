// What is needed of the CUDA driver's binary interface, as NVIDIA's public reference describes it:
// this library is built without a CUDA toolkit and opens the driver at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kiln::launch::cuda {

using Result = int;
using Device = int;
using Handle = void*;  // CUcontext, CUstream, CUlibrary, CUkernel, CUfunction, CUevent, CUgraph, …
using DevicePointer = uint64_t;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kCooperativeLaunchTooLarge = 720;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kLaunchOutOfResources = 701;
inline constexpr Result kStreamCaptureImplicit = 906;
inline constexpr Result kDeinitialized = 4;

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxGridDimX = 5,  // and Y, Z after it
  kWarpSize = 10,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedSizeBytes = 1,
  kFunctionLocalSizeBytes = 3,
  kFunctionNumRegs = 4,
  kFunctionMaxDynamicSharedSizeBytes = 8,
  kFunctionNonPortableClusterSizeAllowed = 14,
};
inline constexpr int kCachePreferShared = 1;

inline constexpr int kLibraryBinaryIsPreserved = 1;

enum LaunchAttributeId : int {
  kAttributeCooperative = 2,
  kAttributeClusterDimension = 4,
  kAttributeClusterSchedulingPolicyPreference = 5,
  kAttributeProgrammaticStreamSerialization = 6,
};
inline constexpr int kClusterSchedulingPolicySpread = 1;

struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Handle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureStatusActive = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kUserObjectNoDestructorSync = 1;
inline constexpr unsigned kGraphUserObjectMove = 1;
inline constexpr int kTensorMapL2Promotion128B = 2;
inline constexpr int kPointerDeviceOrdinal = 9;

// Every function: name in the library, whether it may be missing, and its type.
#define KILN_CUDA_FUNCTIONS(REQUIRED, OPTIONAL)                                                   \
  REQUIRED(cuInit, Result(unsigned))                                                              \
  REQUIRED(cuDriverGetVersion, Result(int*))                                                      \
  REQUIRED(cuGetErrorName, Result(Result, const char**))                                          \
  REQUIRED(cuGetErrorString, Result(Result, const char**))                                        \
  REQUIRED(cuDeviceGet, Result(Device*, int))                                                     \
  REQUIRED(cuDeviceGetName, Result(char*, int, Device))                                           \
  REQUIRED(cuDeviceGetAttribute, Result(int*, int, Device))                                       \
  REQUIRED(cuDevicePrimaryCtxRetain, Result(Handle*, Device))                                     \
  REQUIRED(cuCtxGetCurrent, Result(Handle*))                                                      \
  REQUIRED(cuCtxPushCurrent_v2, Result(Handle))                                                   \
  REQUIRED(cuCtxPopCurrent_v2, Result(Handle*))                                                   \
  REQUIRED(cuCtxGetDevice, Result(Device*))                                                       \
  REQUIRED(cuCtxGetId, Result(Handle, unsigned long long*))                                       \
  REQUIRED(cuLibraryLoadData,                                                                     \
           Result(Handle*, const void*, int*, void**, unsigned, int*, void**, unsigned))          \
  REQUIRED(cuLibraryUnload, Result(Handle))                                                       \
  REQUIRED(cuLibraryGetKernel, Result(Handle*, Handle, const char*))                              \
  REQUIRED(cuKernelGetFunction, Result(Handle*, Handle))                                          \
  REQUIRED(cuFuncGetAttribute, Result(int*, int, Handle))                                         \
  REQUIRED(cuFuncSetAttribute, Result(Handle, int, int))                                          \
  REQUIRED(cuFuncSetCacheConfig, Result(Handle, int))                                             \
  REQUIRED(cuLaunchKernelEx, Result(const LaunchConfig*, Handle, void**, void**))                 \
  REQUIRED(cuStreamIsCapturing, Result(Handle, int*))                                             \
  REQUIRED(cuStreamGetCaptureInfo_v2,                                                             \
           Result(Handle, int*, uint64_t*, Handle*, const Handle**, size_t*))                     \
  REQUIRED(cuThreadExchangeStreamCaptureMode, Result(int*))                                       \
  REQUIRED(cuUserObjectCreate, Result(Handle*, void*, void (*)(void*), unsigned, unsigned))       \
  REQUIRED(cuGraphRetainUserObject, Result(Handle, Handle, unsigned, unsigned))                   \
  REQUIRED(cuMemGetAddressRange_v2, Result(DevicePointer*, size_t*, DevicePointer))               \
  REQUIRED(cuMemRetainAllocationHandle, Result(uint64_t*, void*))                                 \
  REQUIRED(cuMemRelease, Result(uint64_t))                                                        \
  REQUIRED(cuMemAllocAsync, Result(DevicePointer*, size_t, Handle))                               \
  REQUIRED(cuMemFreeAsync, Result(DevicePointer, Handle))                                         \
  REQUIRED(cuMemcpyDtoDAsync_v2, Result(DevicePointer, DevicePointer, size_t, Handle))            \
  REQUIRED(cuMemsetD8Async, Result(DevicePointer, unsigned char, size_t, Handle))                 \
  REQUIRED(cuStreamSynchronize, Result(Handle))                                                   \
  REQUIRED(cuEventCreate, Result(Handle*, unsigned))                                              \
  REQUIRED(cuEventDestroy_v2, Result(Handle))                                                     \
  REQUIRED(cuEventRecord, Result(Handle, Handle))                                                 \
  REQUIRED(cuEventQuery, Result(Handle))                                                          \
  REQUIRED(cuStreamWaitEvent, Result(Handle, Handle, unsigned))                                   \
  REQUIRED(cuPointerGetAttribute, Result(void*, int, DevicePointer))                              \
  REQUIRED(cuEventSynchronize, Result(Handle))                                                    \
  REQUIRED(cuEventElapsedTime, Result(float*, Handle, Handle))                                    \
  OPTIONAL(cuFuncLoad, Result(Handle))                                                            \
  OPTIONAL(cuFuncGetParamInfo, Result(Handle, size_t, size_t*, size_t*))                          \
  OPTIONAL(cuTensorMapEncodeTiled,                                                                \
           Result(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, \
                  const uint32_t*, int, int, int, int))

// The function table. What may be missing is null then.
struct Functions {
#define KILN_CUDA_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  KILN_CUDA_FUNCTIONS(KILN_CUDA_MEMBER, KILN_CUDA_MEMBER)
#undef KILN_CUDA_MEMBER
};

}  // namespace kiln::launch::cuda
