// The part of OpenCL's binary interface that this library uses, as Khronos' reference describes it:
// OpenCL 2.1 and the extension cl_intel_unified_shared_memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/launch/driver/abi.h"

namespace kiln::launch::opencl {

using abi::EntryPoint;
using Result = int;
using Handle = void*;  // platforms, devices, contexts, queues, programs, kernels, events

inline constexpr Result kSuccess = 0;

inline constexpr uint64_t kDeviceTypeAll = 0xFFFFFFFF;

enum DeviceInfo : unsigned {
  kDeviceMaxWorkGroupSize = 0x1004,
  kDeviceGlobalMemCacheSize = 0x101E,
  kDeviceLocalMemSize = 0x1023,
  kDeviceName = 0x102B,
  kDriverVersion = 0x102D,
  kDeviceExtensions = 0x1030,
  kDeviceSvmCapabilities = 0x1053,
  kDeviceIlVersion = 0x105B,
};

inline constexpr unsigned kContextDevices = 0x1081;
inline constexpr intptr_t kContextPlatform = 0x1084;
inline constexpr unsigned kProgramBuildLog = 0x1183;
inline constexpr unsigned kKernelNumArgs = 0x1191;
inline constexpr unsigned kEventCommandExecutionStatus = 0x11D3;
inline constexpr unsigned kProfilingCommandEnd = 0x1283;
inline constexpr uint64_t kMemReadWrite = 1;
inline constexpr int kComplete = 0;

enum KernelWorkGroupInfo : unsigned {
  kKernelWorkGroupSize = 0x11B0,
  kKernelLocalMemSize = 0x11B2,
  kKernelPrivateMemSize = 0x11B4,
};

using BuildCallback = void (*)(Handle, void*);
using ContextCallback = void (*)(const char*, const void*, size_t, void*);

#define KILN_OPENCL_FUNCTIONS(REQUIRED)                                                            \
  REQUIRED(clGetPlatformIDs, Result(unsigned, Handle*, unsigned*))                                 \
  REQUIRED(clGetDeviceIDs, Result(Handle, uint64_t, unsigned, Handle*, unsigned*))                 \
  REQUIRED(clGetDeviceInfo, Result(Handle, unsigned, size_t, void*, size_t*))                      \
  REQUIRED(clGetExtensionFunctionAddressForPlatform, void*(Handle, const char*))                   \
  REQUIRED(clCreateContext,                                                                        \
           Handle(const intptr_t*, unsigned, const Handle*, ContextCallback, void*, Result*))      \
  REQUIRED(clRetainContext, Result(Handle))                                                        \
  REQUIRED(clGetContextInfo, Result(Handle, unsigned, size_t, void*, size_t*))                     \
  REQUIRED(clCreateProgramWithIL, Handle(Handle, const void*, size_t, Result*))                    \
  REQUIRED(clBuildProgram,                                                                         \
           Result(Handle, unsigned, const Handle*, const char*, BuildCallback, void*))             \
  REQUIRED(clGetProgramBuildInfo, Result(Handle, Handle, unsigned, size_t, void*, size_t*))        \
  REQUIRED(clReleaseProgram, Result(Handle))                                                       \
  REQUIRED(clCreateKernel, Handle(Handle, const char*, Result*))                                   \
  REQUIRED(clReleaseKernel, Result(Handle))                                                        \
  REQUIRED(clGetKernelInfo, Result(Handle, unsigned, size_t, void*, size_t*))                      \
  REQUIRED(clGetKernelWorkGroupInfo, Result(Handle, Handle, unsigned, size_t, void*, size_t*))     \
  REQUIRED(clSetKernelArg, Result(Handle, unsigned, size_t, const void*))                          \
  REQUIRED(clSetKernelArgSVMPointer, Result(Handle, unsigned, const void*))                        \
  REQUIRED(clEnqueueNDRangeKernel, Result(Handle, Handle, unsigned, const size_t*, const size_t*,  \
                                          const size_t*, unsigned, const Handle*, Handle*))        \
  REQUIRED(clSVMAlloc, void*(Handle, uint64_t, size_t, unsigned))                                  \
  REQUIRED(clEnqueueSVMFree,                                                                       \
           Result(Handle, unsigned, void**, void (*)(Handle, unsigned, void**, void*), void*,      \
                  unsigned, const Handle*, Handle*))                                               \
  REQUIRED(clEnqueueSVMMemcpy,                                                                     \
           Result(Handle, unsigned, void*, const void*, size_t, unsigned, const Handle*, Handle*)) \
  REQUIRED(clEnqueueSVMMemFill,                                                                    \
           Result(Handle, void*, const void*, size_t, size_t, unsigned, const Handle*, Handle*))   \
  REQUIRED(clEnqueueMarkerWithWaitList, Result(Handle, unsigned, const Handle*, Handle*))          \
  REQUIRED(clEnqueueBarrierWithWaitList, Result(Handle, unsigned, const Handle*, Handle*))         \
  REQUIRED(clFlush, Result(Handle))                                                                \
  REQUIRED(clFinish, Result(Handle))                                                               \
  REQUIRED(clWaitForEvents, Result(unsigned, const Handle*))                                       \
  REQUIRED(clGetEventInfo, Result(Handle, unsigned, size_t, void*, size_t*))                       \
  REQUIRED(clGetEventProfilingInfo, Result(Handle, unsigned, size_t, void*, size_t*))              \
  REQUIRED(clReleaseEvent, Result(Handle))

struct Functions {
#define KILN_OPENCL_MEMBER(name, ...) EntryPoint<__VA_ARGS__> name;
  KILN_OPENCL_FUNCTIONS(KILN_OPENCL_MEMBER)
#undef KILN_OPENCL_MEMBER
};

// Functions that take addresses. Unified shared memory and SVM have the same functions.
struct MemoryFunctions {
  EntryPoint<Result(Handle, unsigned, const void*)> set_pointer;
  EntryPoint<Result(Handle, unsigned, void*, const void*, size_t, unsigned, const Handle*, Handle*)>
      copy;
  EntryPoint<Result(Handle, void*, const void*, size_t, size_t, unsigned, const Handle*, Handle*)>
      fill;
};

#define KILN_OPENCL_ERRORS(ERROR)                          \
  ERROR(CL_DEVICE_NOT_FOUND, -1)                           \
  ERROR(CL_DEVICE_NOT_AVAILABLE, -2)                       \
  ERROR(CL_COMPILER_NOT_AVAILABLE, -3)                     \
  ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4)              \
  ERROR(CL_OUT_OF_RESOURCES, -5)                           \
  ERROR(CL_OUT_OF_HOST_MEMORY, -6)                         \
  ERROR(CL_PROFILING_INFO_NOT_AVAILABLE, -7)               \
  ERROR(CL_MEM_COPY_OVERLAP, -8)                           \
  ERROR(CL_BUILD_PROGRAM_FAILURE, -11)                     \
  ERROR(CL_MAP_FAILURE, -12)                               \
  ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14) \
  ERROR(CL_COMPILE_PROGRAM_FAILURE, -15)                   \
  ERROR(CL_LINKER_NOT_AVAILABLE, -16)                      \
  ERROR(CL_LINK_PROGRAM_FAILURE, -17)                      \
  ERROR(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, -19)             \
  ERROR(CL_INVALID_VALUE, -30)                             \
  ERROR(CL_INVALID_DEVICE_TYPE, -31)                       \
  ERROR(CL_INVALID_PLATFORM, -32)                          \
  ERROR(CL_INVALID_DEVICE, -33)                            \
  ERROR(CL_INVALID_CONTEXT, -34)                           \
  ERROR(CL_INVALID_QUEUE_PROPERTIES, -35)                  \
  ERROR(CL_INVALID_COMMAND_QUEUE, -36)                     \
  ERROR(CL_INVALID_HOST_PTR, -37)                          \
  ERROR(CL_INVALID_MEM_OBJECT, -38)                        \
  ERROR(CL_INVALID_BINARY, -42)                            \
  ERROR(CL_INVALID_BUILD_OPTIONS, -43)                     \
  ERROR(CL_INVALID_PROGRAM, -44)                           \
  ERROR(CL_INVALID_PROGRAM_EXECUTABLE, -45)                \
  ERROR(CL_INVALID_KERNEL_NAME, -46)                       \
  ERROR(CL_INVALID_KERNEL_DEFINITION, -47)                 \
  ERROR(CL_INVALID_KERNEL, -48)                            \
  ERROR(CL_INVALID_ARG_INDEX, -49)                         \
  ERROR(CL_INVALID_ARG_VALUE, -50)                         \
  ERROR(CL_INVALID_ARG_SIZE, -51)                          \
  ERROR(CL_INVALID_KERNEL_ARGS, -52)                       \
  ERROR(CL_INVALID_WORK_DIMENSION, -53)                    \
  ERROR(CL_INVALID_WORK_GROUP_SIZE, -54)                   \
  ERROR(CL_INVALID_WORK_ITEM_SIZE, -55)                    \
  ERROR(CL_INVALID_GLOBAL_OFFSET, -56)                     \
  ERROR(CL_INVALID_EVENT_WAIT_LIST, -57)                   \
  ERROR(CL_INVALID_EVENT, -58)                             \
  ERROR(CL_INVALID_OPERATION, -59)                         \
  ERROR(CL_INVALID_BUFFER_SIZE, -61)                       \
  ERROR(CL_INVALID_GLOBAL_WORK_SIZE, -63)                  \
  ERROR(CL_INVALID_PROPERTY, -64)                          \
  ERROR(CL_MAX_SIZE_RESTRICTION_EXCEEDED, -72)             \
  ERROR(CL_PLATFORM_NOT_FOUND_KHR, -1001)

}  // namespace kiln::launch::opencl
