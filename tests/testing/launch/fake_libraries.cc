#include <filesystem>

#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/fake_hip.h"
#include "tests/testing/launch/private_library.h"

namespace kiln {

FakeCudaLibrary::FakeCudaLibrary() {
  void* control = nullptr;
  path_ = OpenPrivateCopy(KILN_FAKE_CUDA, "fake_cuda", &control);
  fake_ = reinterpret_cast<FakeCuda* (*)()>(control)();
}
FakeCudaLibrary::~FakeCudaLibrary() { std::filesystem::remove(path_); }

FakeHipLibrary::FakeHipLibrary() {
  void* control = nullptr;
  path_ = OpenPrivateCopy(KILN_FAKE_HIP, "fake_hip", &control);
  fake_ = reinterpret_cast<FakeHip* (*)()>(control)();
}
FakeHipLibrary::~FakeHipLibrary() { std::filesystem::remove(path_); }

}  // namespace kiln
