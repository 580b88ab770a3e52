#include "client/launch/driver/shared_library.h"

#include <dlfcn.h>

namespace kiln::launch {

StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(handle, path);
  const char* words = ::dlerror();
  return Unavailable("no GPU driver here: {}", words == nullptr ? path : words);
}

StatusOr<SharedLibrary> SharedLibrary::OpenFirst(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle != nullptr) return SharedLibrary(handle, name);
  }
  for (const std::string& name : names) {
    StatusOr<SharedLibrary> library = Open(name);
    if (library.ok()) return library;
  }
  return Open(names.front());
}

void* SharedLibrary::Find(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace kiln::launch
