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

void BeginCapture(const OwnStream& stream, CaptureMode mode) {
  GPU(cuStreamBeginCapture_v2(stream.get(), static_cast<int>(mode)));
}

Handle EndCapture(const OwnStream& stream) {
  Handle graph = nullptr;
  return Gpu().cuStreamEndCapture(stream.get(), &graph) == 0 ? graph : nullptr;
}

}  // namespace kiln::gpu
