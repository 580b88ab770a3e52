#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/testing/fake_cuda.h"

namespace kiln {

FakeCudaLibrary::FakeCudaLibrary() {
  static std::atomic<int> number = 0;
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder == nullptr ? "/tmp" : folder) + "/fake_cuda-" +
          std::to_string(::getpid()) + "-" + std::to_string(number++) + ".so";
  std::filesystem::copy_file(KILN_FAKE_CUDA, path_,
                             std::filesystem::copy_options::overwrite_existing);
  void* handle = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* control = handle == nullptr ? nullptr : ::dlsym(handle, "fake_cuda");
  if (control == nullptr) {
    std::fprintf(stderr, "%s: %s\n", path_.c_str(), ::dlerror());
    std::abort();
  }
  fake_ = reinterpret_cast<FakeCuda* (*)()>(control)();
}

// It stays loaded: threads and graphs of a test may still be on their way out of it.
FakeCudaLibrary::~FakeCudaLibrary() { std::filesystem::remove(path_); }

}  // namespace kiln
