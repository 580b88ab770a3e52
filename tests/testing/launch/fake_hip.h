// A stand-in for the HIP runtime: a shared library with its functions, which does nothing on any
// device and remembers what it was asked. Two devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/testing/launch/fake_cuda.h"

namespace kiln {

// What a test sees and sets; used from one thread.
class FakeHip {
 public:
  virtual ~FakeHip() = default;

  // Which kernels images have, whatever the image; its milliseconds and body are not used.
  virtual void Define(const std::string& kernel, const FakeKernel& facts) = 0;
  // The next call of a function fails.
  virtual void Fail(const std::string& function, int result) = 0;

  // Streams are any pointers.
  virtual void BeginCapture(void* stream) = 0;
  virtual void EndCaptureAndDestroyGraph(void* stream) = 0;

  virtual std::vector<FakeLaunch> launches() const = 0;
  virtual int calls(const std::string& function) const = 0;
  virtual int loaded() const = 0;  // modules
  virtual size_t allocated() const = 0;
  // The device of this thread, and that of the last module.
  virtual int device() const = 0;
  virtual int module_device() const = 0;
  virtual int capture_mode() const = 0;
  // hipGetLastError would say so.
  virtual int last_error() const = 0;

  std::string architecture = "gfx942:sramecc+:xnack-";
  int warp_size = 64;
  int version = 60'342'133;
};

// As FakeCudaLibrary: a copy of its own for each test.
class FakeHipLibrary {
 public:
  FakeHipLibrary();
  FakeHipLibrary(const FakeHipLibrary&) = delete;
  FakeHipLibrary& operator=(const FakeHipLibrary&) = delete;
  ~FakeHipLibrary();

  const std::string& path() const { return path_; }
  FakeHip* operator->() { return fake_; }

 private:
  std::string path_;
  FakeHip* fake_;
};

}  // namespace kiln
