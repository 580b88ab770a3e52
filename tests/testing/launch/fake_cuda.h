// A stand-in for the CUDA driver: a shared library with its functions, which does nothing on any
// device, keeps its rules, and remembers what it was asked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln {

// One cuLaunchKernelEx.
struct FakeLaunch {
  std::string kernel;
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  unsigned shared_bytes;
  void* stream;
  std::map<int, std::array<unsigned, 3>> attributes;  // id → the first three words of its value
  std::vector<std::string> arguments;                 // each one's bytes
};

struct FakeKernel {
  std::vector<size_t> parameter_bytes = {};  // hidden ones included
  int registers = 32;
  int static_shared_bytes = 0;
  int threads_max = 1024;
  float milliseconds = 1;  // that a launch takes on the device
  int launch_result = 0;   // what launches of it end with
  // What it does to memory, given the bytes of each argument. Called on the launching thread.
  std::function<void(const std::vector<std::string>& arguments)> body = {};
};

// What a test sees and sets. Everything is thread-safe but for the public members, which are set
// before the library is used by other threads and read after.
class FakeCuda {
 public:
  virtual ~FakeCuda() = default;

  // Which kernels images have, whatever the image.
  virtual void Define(const std::string& kernel, const FakeKernel& facts) = 0;
  // The next `count` calls of a function fail.
  virtual void Fail(const std::string& function, int result, int count = 1) = 0;
  // Makes a context of that device current on this thread; null: none.
  virtual void* MakeContext(int device) = 0;
  void* MakeContext() { return MakeContext(0); }
  virtual void SetCurrent(void* context) = 0;
  virtual void* Current() = 0;

  // Capture. Streams are any pointers.
  virtual void BeginCapture(void* stream) = 0;
  // The graph, or null where something ended the capture.
  virtual void* EndCapture(void* stream) = 0;
  // Whether it could be replayed: whether the code of all that it launches is still loaded.
  virtual bool IsRunnable(void* graph) const = 0;
  virtual void DestroyGraph(void* graph) = 0;

  // A buffer of device memory that is not freed; what is written in it, and what it holds.
  virtual uint64_t MakeBuffer(const std::string& content) = 0;
  // Allocations that lie one directly behind the other, as the driver often has them.
  virtual uint64_t MakeNeighbours(const std::vector<std::string>& contents) = 0;
  // Memory of pieces of so many bytes, mapped one behind the other.
  virtual uint64_t MakeMapping(const std::vector<size_t>& pieces) = 0;
  virtual void Write(uint64_t address, const std::string& content) = 0;
  virtual std::string Read(uint64_t address, size_t bytes) const = 0;

  virtual std::vector<FakeLaunch> launches() const = 0;
  // What a call of a function does besides, on the calling thread, before it counts.
  virtual void OnCall(const std::string& function, std::function<void()> action) = 0;
  virtual int calls(const std::string& function) const = 0;
  virtual int loaded() const = 0;          // libraries
  virtual size_t allocated() const = 0;    // stream-ordered ones that were not freed
  virtual int ended_captures() const = 0;  // by calls that must not come under capture
  // The capture mode of this thread.
  virtual int capture_mode() const = 0;

  int capability_major = 9;
  int capability_minor = 0;
  int driver_version = 13000;
  bool is_cooperative = true;   // the device takes cooperative launches
  bool memory_is_host = false;  // addresses are pointers of this process, and memsets write there
  int libraries_max = 1 << 30;  // of a context; more do not fit into memory
};

// Opens a copy of the library of its own, so that each test begins anew. Removes it at the end.
// `path` is for kiln_launch_open_options::driver_path.
class FakeCudaLibrary {
 public:
  FakeCudaLibrary();
  FakeCudaLibrary(const FakeCudaLibrary&) = delete;
  FakeCudaLibrary& operator=(const FakeCudaLibrary&) = delete;
  ~FakeCudaLibrary();

  const std::string& path() const { return path_; }
  FakeCuda* operator->() { return fake_; }

 private:
  std::string path_;
  FakeCuda* fake_;
};

}  // namespace kiln
