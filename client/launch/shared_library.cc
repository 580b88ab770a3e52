#include "client/launch/shared_library.h"

#include <dlfcn.h>

namespace kiln::launch {

StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(handle, path);
  const char* words = ::dlerror();
  return Unavailable("no GPU driver here: {}", words == nullptr ? path : words);
}

void* SharedLibrary::Find(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace kiln::launch
