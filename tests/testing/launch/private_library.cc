#include "tests/testing/launch/private_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace kiln {

std::string OpenPrivateCopy(const std::string& library, const char* symbol, void** control) {
  static std::atomic<int> number = 0;
  const char* folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/" + symbol + "-" +
                           std::to_string(::getpid()) + "-" + std::to_string(number++) + ".so";
  std::filesystem::copy_file(library, path, std::filesystem::copy_options::overwrite_existing);
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  *control = handle == nullptr ? nullptr : ::dlsym(handle, symbol);
  if (*control == nullptr) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), ::dlerror());
    std::abort();
  }
  return path;
}

}  // namespace kiln
