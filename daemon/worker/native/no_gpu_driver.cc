// Keeps the GPU driver out of this program. NVRTC opens libcuda.so.1 and calls cuInit with its
// first compile, where a driver is installed. The driver starts threads, and a process with threads
// is no zygote. Without a driver NVRTC compiles the same: the architecture is always named.
#include <dlfcn.h>

#include <cstring>

// The executable's symbols come first, so libraries call this function.
extern "C" void* dlopen(const char* file, int mode) {
  using Dlopen = void* (*)(const char*, int);
  // NOLINTNEXTLINE: what dlsym returns is this function.
  static const auto next = reinterpret_cast<Dlopen>(::dlsym(RTLD_NEXT, "dlopen"));
  if (file != nullptr && std::strstr(file, "libcuda.so") != nullptr) file = "/no-gpu-driver";
  return next(file, mode);
}
