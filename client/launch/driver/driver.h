// A driver that loads kernels and launches them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/status.h"
#include "client/launch/driver/abi.h"

namespace kiln::launch {

using Address = uint64_t;  // in the device's memory
// CUDA: CUcontext. HIP, which has none: the device's number plus one. OpenCL: cl_context.
using Context = void*;
using Stream = void*;
using Module = void*;
using Function = void*;
using Event = void*;
using Graph = void*;

// Whether the stream is a created stream. The others stand for a stream of the current context:
// NULL, the legacy stream, a thread's own stream.
inline bool IsMadeStream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) > 2; }
// NULL or the legacy stream, which cannot capture.
inline bool IsLegacyStream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

struct DeviceFacts {
  int ordinal = 0;
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "90", "gfx942:sramecc+:xnack-", of SPIR-V its newest version "1.4"
  int64_t warp_size = 32;
  int64_t threads_max = 1024;    // of one block
  int64_t shared_bytes_max = 0;  // of one block, when it opts in
  std::array<int64_t, 3> grid_max = {};
  int64_t l2_bytes = 0;
  int64_t driver_version = 0;  // the driver's own number
};

// A piece of the device's memory.
struct MemoryRange {
  Address begin = 0;
  uint64_t bytes = 0;

  Address end() const { return begin + bytes; }
  auto operator<=>(const MemoryRange&) const = default;
};

struct LoadedCode {
  Module module = nullptr;
  Function function = nullptr;
};

struct FunctionFacts {
  int registers = 0;
  int local_bytes = 0;          // per thread: stack and spills
  int static_shared_bytes = 0;  // of one block
  int threads_max = 0;          // of one block, with its registers
  // Bytes of each parameter, hidden ones included; 0: not known. Empty optional: this driver does
  // not say how many there are.
  std::optional<std::vector<size_t>> parameter_bytes;
};

// A launch as the device sees it: the grid counts blocks.
struct DriverLaunch {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  Stream stream = nullptr;
  std::array<uint32_t, 3> cluster = {0, 0, 0};  // zeroes: the kernel's own, or none
  bool pdl = false;
  bool cooperative = false;
};

// Whether a stream captures, and into what.
struct Capture {
  bool is_active = false;
  uint64_t id = 0;        // of this capture, never given twice
  Graph graph = nullptr;  // not to be kept
};

// What a CUtensorMap is made of; lengths in the driver's order, the fastest dimension first.
struct TensorMapRequest {
  Address base = 0;
  int type = 0;  // CUtensorMapDataType
  int swizzle = 0;
  int rank = 0;
  bool fills_with_nan = false;
  std::array<uint64_t, 5> shape = {};
  std::array<uint64_t, 4> stride_bytes = {};  // of all dimensions but the fastest
  std::array<uint32_t, 5> block = {};
};

// One driver library, opened at run time. Every failure names the driver's function, the error's
// name and its text. Thread-safe; "the current context" is the calling thread's. UNIMPLEMENTED:
// this driver does not have the function.
class Driver {
 public:
  virtual ~Driver() = default;

  // "cuda", "hip", "spirv" (OpenCL): as in a kernel's target.
  std::string_view backend() const { return backend_; }
  // Equal for two drivers of one library, whatever names opened it.
  const void* library_id() const { return library_id_; }

  // --- Contexts ---

  // Null: no context is current.
  virtual StatusOr<Context> CurrentContext() = 0;
  // The primary context of a device. Makes it if necessary, and never releases it.
  virtual StatusOr<Context> PrimaryContext(int device) = 0;
  // Makes a context of the caller's current on this thread, or with null none. UNIMPLEMENTED: the
  // driver itself has such a function.
  virtual Status SetContext(Context context) = 0;
  virtual Status PushContext(Context context) = 0;
  virtual Status PopContext() = 0;
  // A number that no later context gets.
  virtual StatusOr<uint64_t> ContextId(Context context) = 0;
  // The device of the current context.
  virtual StatusOr<DeviceFacts> CurrentDevice() = 0;
  // Facts about a device by its number. Makes no context.
  virtual StatusOr<DeviceFacts> DeviceAt(int ordinal) = 0;

  // --- Code, in the current context ---

  // The function that the metadata names. `image` must stay in place until Unload. Waits for the
  // device. RESOURCE_EXHAUSTED: no memory.
  virtual StatusOr<LoadedCode> Load(std::string_view image, const KernelMetadata& metadata) = 0;
  virtual Status Unload(Module module) = 0;
  virtual StatusOr<FunctionFacts> Describe(Function function) = 0;
  // How many blocks of so many threads the current context's device has room for at once, in a
  // cooperative launch.
  virtual StatusOr<uint32_t> ResidentBlocks(Function, uint32_t /*threads*/,
                                            uint32_t /*dynamic_shared_bytes*/) {
    return Unimplemented("no cooperative launches are made by {}", backend_);
  }
  // Allows a block this much dynamic shared memory.
  virtual Status AllowSharedBytes(Function function, int bytes) = 0;
  // Prefers shared memory to L1 cache.
  virtual Status PreferSharedMemory(Function function) = 0;
  // Allows clusters that are larger than the portable size.
  virtual Status AllowLargeClusters(Function function) = 0;
  // `arguments` has one pointer per parameter, hidden ones included.
  virtual Status Launch(Function function, const DriverLaunch& launch, void** arguments) = 0;
  // IsCapturing and Launch in one, without a Status. Returns the driver's result, 0 for success, or
  // kNotTried if the stream captures or IsCapturing fails. LaunchFailure makes a Status of it.
  // REQUIRES: no cluster, no PDL, not cooperative.
  static constexpr int kNotTried = -1;
  virtual int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) = 0;
  virtual Status LaunchFailure(int result) const = 0;
  virtual Status EncodeTensorMap(const TensorMapRequest& request, void* map) = 0;

  // --- Capture ---

  // Cheap. FAILED_PRECONDITION: the stream is the NULL stream, and another stream captures; a
  // launch would end that capture.
  virtual StatusOr<bool> IsCapturing(Stream stream) = 0;
  virtual StatusOr<Capture> CaptureOf(Stream stream) = 0;
  // Sets the thread's capture mode and returns the mode before.
  virtual int ExchangeCaptureMode(int mode) = 0;
  // Calls `destroy(data)` once the graph and all its instances are destroyed, on a thread of the
  // driver. `destroy` must not call the driver.
  virtual Status OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) = 0;

  // --- Memory, events ---

  // The device that the address belongs to. INVALID_ARGUMENT: the driver does not know the address.
  virtual StatusOr<int> DeviceOf(Address address) = 0;
  // The allocation that an address lies in. INVALID_ARGUMENT: it is not device memory.
  virtual StatusOr<MemoryRange> AllocationAt(Address address) = 0;
  // Whether the address lies in a piece of memory that an allocator mapped (cuMemMap). The next
  // piece may belong to the same buffer.
  virtual bool IsMappedPiece(Address address) = 0;
  // In stream order.
  virtual StatusOr<Address> AllocateAsync(size_t bytes, Stream stream) = 0;
  virtual Status FreeAsync(Address address, Stream stream) = 0;
  virtual Status CopyAsync(Address to, Address from, size_t bytes, Stream stream) = 0;
  virtual Status FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) = 0;
  virtual Status Synchronize(Stream stream) = 0;
  virtual StatusOr<Event> MakeEvent() = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual Status Record(Event event, Stream stream) = 0;
  // Later work on the stream waits for the event.
  virtual Status WaitOn(Stream stream, Event event) = 0;
  // Whether everything before it has happened.
  virtual StatusOr<bool> HasHappened(Event event) = 0;
  virtual Status Wait(Event event) = 0;
  virtual StatusOr<float> MillisecondsBetween(Event begin, Event end) = 0;

 protected:
  Driver(std::string_view backend, const void* library_id)
      : backend_(backend), library_id_(library_id) {}

 private:
  const std::string_view backend_;
  const void* const library_id_;
};

// Makes a context current while this object lives. Cheap if the context is current already.
class ScopedContext {
 public:
  ScopedContext(Driver& driver, Context context) : driver_(driver) {
    const StatusOr<Context> current = driver.CurrentContext();
    if (!current.ok()) {
      status_ = current.status();
    } else if (*current != context) {
      status_ = driver.PushContext(context);
      is_pushed_ = status_.ok();
    }
  }
  ~ScopedContext() {
    // A failure cannot be repaired.
    if (is_pushed_) static_cast<void>(driver_.PopContext());
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  const Status& status() const { return status_; }

 private:
  Driver& driver_;
  Status status_;
  bool is_pushed_ = false;
};

// While this object lives, calls of this thread do not end captures of any thread.
class ScopedRelaxedCapture {
 public:
  explicit ScopedRelaxedCapture(Driver& driver)
      : driver_(driver), before_(driver.ExchangeCaptureMode(abi::kCaptureModeRelaxed)) {}
  ~ScopedRelaxedCapture() { driver_.ExchangeCaptureMode(before_); }
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

 private:
  Driver& driver_;
  const int before_;
};

}  // namespace kiln::launch
