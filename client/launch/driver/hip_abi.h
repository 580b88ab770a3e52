// What is needed of the HIP runtime's binary interface (ROCm 6.0 and later), as AMD's public
// headers describe it: this library is built without ROCm and opens the runtime when it is asked
// to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kiln::launch::hip {

using Result = int;
using Handle = void*;  // hipStream_t, hipModule_t, hipFunction_t, hipEvent_t, hipGraph_t, …
using DevicePointer = void*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kInvalidConfiguration = 9;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kLaunchOutOfResources = 701;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kCooperativeLaunchTooLarge = 720;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kStreamCaptureImplicit = 906;

enum DeviceAttribute : int {
  kL2CacheSize = 19,
  kMaxGridDimX = 29,  // and Y, Z after it
  kMaxThreadsPerBlock = 56,
  kMaxSharedMemoryPerBlock = 74,
  kWarpSize = 87,
};

enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedSizeBytes = 1,
  kFunctionLocalSizeBytes = 3,
  kFunctionNumRegs = 4,
};

// Only the architecture's name is read from hipDeviceProp_tR0600: no attribute has it. There is
// room for fields that later versions append.
inline constexpr size_t kArchitectureNameOffset = 1160;
inline constexpr size_t kArchitectureNameBytes = 256;
struct alignas(8) DeviceProperties {
  char bytes[8192];
};

enum LaunchAttributeId : int {
  kAttributeCooperative = 2,
  kAttributeClusterDimension = 4,
};

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
inline constexpr int kPointerDeviceOrdinal = 9;

// Every function: name in the library, whether it may be missing, and its type.
#define KILN_HIP_FUNCTIONS(REQUIRED, OPTIONAL)                                                     \
  REQUIRED(hipInit, Result(unsigned))                                                              \
  REQUIRED(hipDriverGetVersion, Result(int*))                                                      \
  REQUIRED(hipGetErrorName, const char*(Result))                                                   \
  REQUIRED(hipGetErrorString, const char*(Result))                                                 \
  REQUIRED(hipGetLastError, Result())                                                              \
  REQUIRED(hipGetDeviceCount, Result(int*))                                                        \
  REQUIRED(hipGetDevice, Result(int*))                                                             \
  REQUIRED(hipSetDevice, Result(int))                                                              \
  REQUIRED(hipDeviceGetName, Result(char*, int, int))                                              \
  REQUIRED(hipDeviceGetAttribute, Result(int*, int, int))                                          \
  REQUIRED(hipGetDevicePropertiesR0600, Result(DeviceProperties*, int))                            \
  REQUIRED(hipModuleLoadData, Result(Handle*, const void*))                                        \
  REQUIRED(hipModuleUnload, Result(Handle))                                                        \
  REQUIRED(hipModuleGetFunction, Result(Handle*, Handle, const char*))                             \
  REQUIRED(hipFuncGetAttribute, Result(int*, int, Handle))                                         \
  REQUIRED(hipModuleLaunchKernel, Result(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                         unsigned, unsigned, Handle, void**, void**))              \
  REQUIRED(hipModuleLaunchCooperativeKernel,                                                       \
           Result(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
                  Handle, void**))                                                                 \
  REQUIRED(hipStreamIsCapturing, Result(Handle, int*))                                             \
  REQUIRED(hipStreamGetCaptureInfo_v2,                                                             \
           Result(Handle, int*, unsigned long long*, Handle*, const Handle**, size_t*))            \
  REQUIRED(hipThreadExchangeStreamCaptureMode, Result(int*))                                       \
  REQUIRED(hipUserObjectCreate, Result(Handle*, void*, void (*)(void*), unsigned, unsigned))       \
  REQUIRED(hipGraphRetainUserObject, Result(Handle, Handle, unsigned, unsigned))                   \
  REQUIRED(hipMemGetAddressRange, Result(DevicePointer*, size_t*, DevicePointer))                  \
  REQUIRED(hipMallocAsync, Result(DevicePointer*, size_t, Handle))                                 \
  REQUIRED(hipFreeAsync, Result(DevicePointer, Handle))                                            \
  REQUIRED(hipMemcpyDtoDAsync, Result(DevicePointer, DevicePointer, size_t, Handle))               \
  REQUIRED(hipMemsetD8Async, Result(DevicePointer, unsigned char, size_t, Handle))                 \
  REQUIRED(hipStreamSynchronize, Result(Handle))                                                   \
  REQUIRED(hipEventCreateWithFlags, Result(Handle*, unsigned))                                     \
  REQUIRED(hipEventDestroy, Result(Handle))                                                        \
  REQUIRED(hipEventRecord, Result(Handle, Handle))                                                 \
  REQUIRED(hipStreamWaitEvent, Result(Handle, Handle, unsigned))                                   \
  REQUIRED(hipPointerGetAttribute, Result(void*, int, DevicePointer))                              \
  REQUIRED(hipEventQuery, Result(Handle))                                                          \
  REQUIRED(hipEventSynchronize, Result(Handle))                                                    \
  REQUIRED(hipEventElapsedTime, Result(float*, Handle, Handle))                                    \
  OPTIONAL(hipMemRetainAllocationHandle, Result(Handle*, void*))                                   \
  OPTIONAL(hipMemRelease, Result(Handle))                                                          \
  OPTIONAL(hipDrvLaunchKernelEx, Result(const LaunchConfig*, Handle, void**, void**))

// The function table. What may be missing is null then.
struct Functions {
#define KILN_HIP_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  KILN_HIP_FUNCTIONS(KILN_HIP_MEMBER, KILN_HIP_MEMBER)
#undef KILN_HIP_MEMBER
};

}  // namespace kiln::launch::hip
