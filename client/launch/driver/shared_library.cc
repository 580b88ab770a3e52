#include "client/launch/driver/shared_library.h"

#include <dlfcn.h>

namespace kiln::launch {

StatusOr<SharedLibrary> SharedLibrary::Open(const std::vector<std::string>& names) {
  std::string why;
  for (const int mode : {RTLD_NOLOAD, 0}) {
    for (const std::string& name : names) {
      void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | mode);
      if (handle != nullptr) return SharedLibrary(handle, name);
      const char* words = ::dlerror();
      if (mode == 0 && why.empty()) why = words == nullptr ? name : words;
    }
  }
  return Unavailable("no GPU driver here: {}", why);
}

void* SharedLibrary::FunctionAt(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace kiln::launch
