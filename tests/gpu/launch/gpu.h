// A GPU, as a program of somebody else's has it: by its driver alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "client/launch/driver/cuda_abi.h"

namespace kiln::gpu {

using launch::cuda::DevicePointer;
using launch::cuda::Handle;
using launch::cuda::Result;

// What these tests need beside what the library does.
#define KILN_GPU_FUNCTIONS(ENTRY)                                                      \
  ENTRY(cuInit, Result(unsigned))                                                      \
  ENTRY(cuDriverGetVersion, Result(int*))                                              \
  ENTRY(cuDeviceGet, Result(int*, int))                                                \
  ENTRY(cuDeviceGetCount, Result(int*))                                                \
  ENTRY(cuDeviceGetAttribute, Result(int*, int, int))                                  \
  ENTRY(cuDevicePrimaryCtxRetain, Result(Handle*, int))                                \
  ENTRY(cuDevicePrimaryCtxRelease_v2, Result(int))                                     \
  ENTRY(cuCtxSetCurrent, Result(Handle))                                               \
  ENTRY(cuCtxGetCurrent, Result(Handle*))                                              \
  ENTRY(cuCtxCreate_v2, Result(Handle*, unsigned, int))                                \
  ENTRY(cuCtxDestroy_v2, Result(Handle))                                               \
  ENTRY(cuStreamIsCapturing, Result(Handle, int*))                                     \
  ENTRY(cuCtxSynchronize, Result())                                                    \
  ENTRY(cuGetErrorName, Result(Result, const char**))                                  \
  ENTRY(cuMemAlloc_v2, Result(DevicePointer*, size_t))                                 \
  ENTRY(cuMemFree_v2, Result(DevicePointer))                                           \
  ENTRY(cuMemHostAlloc, Result(void**, size_t, unsigned))                              \
  ENTRY(cuMemFreeHost, Result(void*))                                                  \
  ENTRY(cuMemAddressReserve,                                                           \
        Result(DevicePointer*, size_t, size_t, DevicePointer, unsigned long long))     \
  ENTRY(cuMemAddressFree, Result(DevicePointer, size_t))                               \
  ENTRY(cuMemCreate, Result(uint64_t*, size_t, const void*, unsigned long long))       \
  ENTRY(cuMemRelease, Result(uint64_t))                                                \
  ENTRY(cuMemMap, Result(DevicePointer, size_t, size_t, uint64_t, unsigned long long)) \
  ENTRY(cuMemUnmap, Result(DevicePointer, size_t))                                     \
  ENTRY(cuMemSetAccess, Result(DevicePointer, size_t, const void*, size_t))            \
  ENTRY(cuMemcpyHtoD_v2, Result(DevicePointer, const void*, size_t))                   \
  ENTRY(cuMemcpyDtoH_v2, Result(void*, DevicePointer, size_t))                         \
  ENTRY(cuMemsetD8_v2, Result(DevicePointer, unsigned char, size_t))                   \
  ENTRY(cuMemsetD8Async, Result(DevicePointer, unsigned char, size_t, Handle))         \
  ENTRY(cuMemcpyDtoDAsync_v2, Result(DevicePointer, DevicePointer, size_t, Handle))    \
  ENTRY(cuStreamCreate, Result(Handle*, unsigned))                                     \
  ENTRY(cuStreamDestroy_v2, Result(Handle))                                            \
  ENTRY(cuStreamSynchronize, Result(Handle))                                           \
  ENTRY(cuStreamQuery, Result(Handle))                                                 \
  ENTRY(cuStreamBeginCapture_v2, Result(Handle, int))                                  \
  ENTRY(cuStreamEndCapture, Result(Handle, Handle*))                                   \
  ENTRY(cuGraphInstantiateWithFlags, Result(Handle*, Handle, unsigned long long))      \
  ENTRY(cuGraphExecUpdate_v2, Result(Handle, Handle, void*))                           \
  ENTRY(cuGraphLaunch, Result(Handle, Handle))                                         \
  ENTRY(cuGraphExecDestroy, Result(Handle))                                            \
  ENTRY(cuGraphDestroy, Result(Handle))                                                \
  ENTRY(cuLibraryLoadData,                                                             \
        Result(Handle*, const void*, int*, void**, unsigned, int*, void**, unsigned))  \
  ENTRY(cuLibraryGetKernel, Result(Handle*, Handle, const char*))                      \
  ENTRY(cuKernelGetFunction, Result(Handle*, Handle))                                  \
  ENTRY(cuLaunchKernelEx, Result(const launch::cuda::LaunchConfig*, Handle, void**, void**))

struct Functions {
#define KILN_GPU_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  KILN_GPU_FUNCTIONS(KILN_GPU_MEMBER)
#undef KILN_GPU_MEMBER
};

// Where the bundle has its artifacts, and the driver that is opened: set by main.
struct Places {
  std::string artifacts;
  std::string driver = "libcuda.so.1";
};
Places& places();

// What device 0 is: "90".
const std::string& Architecture();
// What an example kernel that was compiled for it is called: "softmax-cuda-90".
std::string CaseName(const std::string& kernel);

// The driver's functions, with the primary context of device 0 current on this thread. Ends the
// program with a clear word where there is none.
const Functions& Gpu();
// Makes it current on another thread.
void EnterGpu();
// Ends the program where the driver refuses.
void CheckGpu(Result result, const char* what);
#define GPU(call) ::kiln::gpu::CheckGpu(::kiln::gpu::Gpu().call, #call)

// Memory on the device, filled with 0xff so that what was not written shows.
template <typename T>
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    GPU(cuMemAlloc_v2(&address_, bytes()));
    GPU(cuMemsetD8_v2(address_, 0xff, bytes()));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { Write(values); }
  ~Buffer() { Gpu().cuMemFree_v2(address_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void Write(const std::vector<T>& values) {
    GPU(cuMemcpyHtoD_v2(address_, values.data(), bytes()));
  }
  // Waits for everything.
  std::vector<T> Read() const {
    GPU(cuCtxSynchronize());
    std::vector<T> values(count_);
    GPU(cuMemcpyDtoH_v2(values.data(), address_, bytes()));
    return values;
  }
  size_t bytes() const { return count_ * sizeof(T); }
  // For an argument list.
  const DevicePointer* argument() const { return &address_; }
  DevicePointer address() const { return address_; }

 private:
  size_t count_;
  DevicePointer address_ = 0;
};

// Memory that is mapped in pieces of 2 MiB, one behind the other, as PyTorch's expandable segments
// are.
class MappedMemory {
 public:
  static constexpr size_t kPieceBytes = size_t{2} << 20;
  explicit MappedMemory(size_t pieces);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  // For an argument list.
  const DevicePointer* argument() const { return &address_; }
  DevicePointer address() const { return address_; }
  size_t bytes() const { return pieces_ * kPieceBytes; }

 private:
  const size_t pieces_;
  DevicePointer address_ = 0;
};

// Does not wait for the default stream.
class OwnStream {
 public:
  OwnStream() { GPU(cuStreamCreate(&handle_, /*NON_BLOCKING*/ 1)); }
  ~OwnStream() { Gpu().cuStreamDestroy_v2(handle_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Handle get() const { return handle_; }
  void Wait() const { GPU(cuStreamSynchronize(handle_)); }

 private:
  Handle handle_ = nullptr;
};

enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

// What was captured, ready to run.
class Graph {
 public:
  explicit Graph(Handle graph) : graph_(graph) {
    GPU(cuGraphInstantiateWithFlags(&exec_, graph, 0));
  }
  ~Graph() {
    Gpu().cuGraphExecDestroy(exec_);
    Gpu().cuGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void Run(const OwnStream& stream) const {
    GPU(cuGraphLaunch(exec_, stream.get()));
    stream.Wait();
  }

 private:
  Handle graph_;
  Handle exec_ = nullptr;
};

void BeginCapture(const OwnStream& stream, CaptureMode mode);
// Null where the capture was ended by something that must not happen under it.
Handle EndCapture(const OwnStream& stream);

}  // namespace kiln::gpu
