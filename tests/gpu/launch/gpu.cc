#include "tests/gpu/launch/gpu.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace kiln::gpu {
namespace {

[[noreturn]] void Die(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::fflush(nullptr);
  std::_Exit(3);
}

Handle& Primary() {
  static Handle context = nullptr;
  return context;
}

Functions Open() {
  void* library = ::dlopen(places().driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Die("no GPU driver here", ::dlerror());
  Functions functions;
#define KILN_GPU_FIND(name, ...)                                                        \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) Die("the driver lacks", #name);
  KILN_GPU_FUNCTIONS(KILN_GPU_FIND)
#undef KILN_GPU_FIND
  if (functions.cuInit(0) != 0) Die("cuInit", "no GPU here");
  int device = 0;
  if (functions.cuDeviceGet(&device, 0) != 0 ||
      functions.cuDevicePrimaryCtxRetain(&Primary(), device) != 0) {
    Die("device 0", "no context");
  }
  return functions;
}

}  // namespace

Places& places() {
  static Places places;
  return places;
}

const std::string& Architecture() {
  static const std::string architecture = [] {
    constexpr int kMajor = 75, kMinor = 76;
    int major = 0, minor = 0;
    GPU(cuDeviceGetAttribute(&major, kMajor, 0));
    GPU(cuDeviceGetAttribute(&minor, kMinor, 0));
    return std::to_string(major) + std::to_string(minor);
  }();
  return architecture;
}

std::string CaseName(const std::string& kernel) { return kernel + "-cuda-" + Architecture(); }

const Functions& Gpu() {
  static const Functions functions = Open();
  thread_local const Result entered = functions.cuCtxSetCurrent(Primary());
  if (entered != 0) Die("cuCtxSetCurrent", "failed");
  return functions;
}

void EnterGpu() { static_cast<void>(Gpu()); }

void CheckGpu(Result result, const char* what) {
  if (result == 0) return;
  const char* name = nullptr;
  Gpu().cuGetErrorName(result, &name);
  Die(what, name == nullptr ? "failed" : name);
}

MappedMemory::MappedMemory(size_t pieces) : pieces_(pieces) {
  // CUmemAllocationProp and CUmemAccessDesc of the primary context's device.
  struct {
    int type = 1;  // pinned
    int handle_types = 0;
    int location_type = 1;  // device
    int device = 0;
    void* metadata = nullptr;
    uint64_t flags = 0;
  } const properties;
  struct {
    int location_type = 1;
    int device = 0;
    int flags = 3;  // read, write
  } const access;
  static_assert(sizeof properties == 32 && sizeof access == 12);
  GPU(cuMemAddressReserve(&address_, bytes(), 0, 0, 0));
  for (size_t i = 0; i < pieces_; ++i) {
    uint64_t handle = 0;
    GPU(cuMemCreate(&handle, kPieceBytes, &properties, 0));
    GPU(cuMemMap(address_ + i * kPieceBytes, kPieceBytes, 0, handle, 0));
    GPU(cuMemRelease(handle));  // lives as long as it is mapped
  }
  GPU(cuMemSetAccess(address_, bytes(), &access, 1));
}

MappedMemory::~MappedMemory() {
  GPU(cuCtxSynchronize());
  for (size_t i = 0; i < pieces_; ++i) {
    Gpu().cuMemUnmap(address_ + i * kPieceBytes, kPieceBytes);
  }
  Gpu().cuMemAddressFree(address_, bytes());
}

void BeginCapture(const OwnStream& stream, CaptureMode mode) {
  GPU(cuStreamBeginCapture_v2(stream.get(), static_cast<int>(mode)));
}

Handle EndCapture(const OwnStream& stream) {
  Handle graph = nullptr;
  return Gpu().cuStreamEndCapture(stream.get(), &graph) == 0 ? graph : nullptr;
}

}  // namespace kiln::gpu
