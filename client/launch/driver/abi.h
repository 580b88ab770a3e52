// What CUDA's driver and HIP's runtime have in common in their binary interfaces, as the public
// references of NVIDIA and AMD describe them: HIP has CUDA's functions under names of its own. This
// library is built without a toolkit and opens the driver at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::launch::abi {

using Result = int;
using Handle = void*;  // contexts, streams, modules, functions, events, graphs, …
// HIP says void*, which every calling convention of a GPU host passes in the same way.
using DevicePointer = uint64_t;

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

enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedSizeBytes = 1,
  kFunctionLocalSizeBytes = 3,
  kFunctionNumRegs = 4,
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

// A function of the driver; null: the library does not have it.
template <typename Type>
struct EntryPoint {
  const char* name = nullptr;
  Type* function = nullptr;
};

// The functions that both have: member, name in CUDA, name in HIP, type. Others may be missing
// (OPTIONAL).
#define KILN_DRIVER_FUNCTIONS(REQUIRED, OPTIONAL)                                                  \
  REQUIRED(init, cuInit, hipInit, Result(unsigned))                                                \
  REQUIRED(version, cuDriverGetVersion, hipDriverGetVersion, Result(int*))                         \
  REQUIRED(device_name, cuDeviceGetName, hipDeviceGetName, Result(char*, int, int))                \
  REQUIRED(device_attribute, cuDeviceGetAttribute, hipDeviceGetAttribute, Result(int*, int, int))  \
  REQUIRED(current_device, cuCtxGetDevice, hipGetDevice, Result(int*))                             \
  REQUIRED(unload, cuLibraryUnload, hipModuleUnload, Result(Handle))                               \
  REQUIRED(function_attribute, cuFuncGetAttribute, hipFuncGetAttribute, Result(int*, int, Handle)) \
  REQUIRED(is_capturing, cuStreamIsCapturing, hipStreamIsCapturing, Result(Handle, int*))          \
  REQUIRED(capture_info, cuStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2,                    \
           Result(Handle, int*, uint64_t*, Handle*, const Handle**, size_t*))                      \
  REQUIRED(exchange_capture_mode, cuThreadExchangeStreamCaptureMode,                               \
           hipThreadExchangeStreamCaptureMode, Result(int*))                                       \
  REQUIRED(create_user_object, cuUserObjectCreate, hipUserObjectCreate,                            \
           Result(Handle*, void*, void (*)(void*), unsigned, unsigned))                            \
  REQUIRED(retain_user_object, cuGraphRetainUserObject, hipGraphRetainUserObject,                  \
           Result(Handle, Handle, unsigned, unsigned))                                             \
  REQUIRED(pointer_attribute, cuPointerGetAttribute, hipPointerGetAttribute,                       \
           Result(void*, int, DevicePointer))                                                      \
  REQUIRED(address_range, cuMemGetAddressRange_v2, hipMemGetAddressRange,                          \
           Result(DevicePointer*, size_t*, DevicePointer))                                         \
  REQUIRED(allocate, cuMemAllocAsync, hipMallocAsync, Result(DevicePointer*, size_t, Handle))      \
  REQUIRED(free, cuMemFreeAsync, hipFreeAsync, Result(DevicePointer, Handle))                      \
  REQUIRED(copy, cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync,                                         \
           Result(DevicePointer, DevicePointer, size_t, Handle))                                   \
  REQUIRED(fill, cuMemsetD8Async, hipMemsetD8Async,                                                \
           Result(DevicePointer, unsigned char, size_t, Handle))                                   \
  REQUIRED(synchronize, cuStreamSynchronize, hipStreamSynchronize, Result(Handle))                 \
  REQUIRED(create_event, cuEventCreate, hipEventCreateWithFlags, Result(Handle*, unsigned))        \
  REQUIRED(destroy_event, cuEventDestroy_v2, hipEventDestroy, Result(Handle))                      \
  REQUIRED(record, cuEventRecord, hipEventRecord, Result(Handle, Handle))                          \
  REQUIRED(wait_on, cuStreamWaitEvent, hipStreamWaitEvent, Result(Handle, Handle, unsigned))       \
  REQUIRED(query_event, cuEventQuery, hipEventQuery, Result(Handle))                               \
  REQUIRED(wait, cuEventSynchronize, hipEventSynchronize, Result(Handle))                          \
  REQUIRED(elapsed_time, cuEventElapsedTime, hipEventElapsedTime, Result(float*, Handle, Handle))  \
  OPTIONAL(retain_allocation, cuMemRetainAllocationHandle, hipMemRetainAllocationHandle,           \
           Result(uint64_t*, DevicePointer))                                                       \
  OPTIONAL(release_allocation, cuMemRelease, hipMemRelease, Result(uint64_t))

struct Functions {
#define KILN_DRIVER_MEMBER(member, cuda, hip, ...) EntryPoint<__VA_ARGS__> member;
  KILN_DRIVER_FUNCTIONS(KILN_DRIVER_MEMBER, KILN_DRIVER_MEMBER)
#undef KILN_DRIVER_MEMBER
};

}  // namespace kiln::launch::abi
