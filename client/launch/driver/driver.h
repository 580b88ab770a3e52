// What this library asks of a GPU driver: CUDA's, or HIP's.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/status.h"

namespace kiln::launch {

using Address = uint64_t;  // in the device's memory
using Context = void*;     // CUDA: CUcontext. HIP, which has none: the device's number plus one
using Stream = void*;
using Module = void*;
using Function = void*;
using Event = void*;
using Graph = void*;

// Whether somebody made it. The others are words for a stream of whichever context is current:
// NULL, the legacy one, a thread's own.
inline bool IsMadeStream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) > 2; }
// NULL or the legacy one, which no capture can be of.
inline bool IsLegacyStream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

struct DeviceFacts {
  int ordinal = 0;
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "90", "gfx942:sramecc+:xnack-"
  int64_t warp_size = 32;
  int64_t threads_max = 1024;    // of one block
  int64_t shared_bytes_max = 0;  // of one block, when it opts in
  std::array<int64_t, 3> grid_max = {};
  int64_t l2_bytes = 0;
  int64_t driver_version = 0;  // as the driver counts them
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
  // Bytes of each parameter, hidden ones included. Empty optional: this driver does not say.
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

// One driver library, opened at run time. Every failure names the driver's function and the error's
// name and words. Thread-safe, as drivers are; what acts on "the current context" means the calling
// thread's. UNIMPLEMENTED: this driver has no such function.
class Driver {
 public:
  virtual ~Driver() = default;

  // "cuda", "hip": as in a kernel's target.
  virtual std::string_view backend() const = 0;

  // --- Contexts ---

  // Null: none is current.
  virtual StatusOr<Context> CurrentContext() = 0;
  // Of a device, made where it is not there yet, and kept for good.
  virtual StatusOr<Context> PrimaryContext(int device) = 0;
  virtual Status PushContext(Context context) = 0;
  virtual Status PopContext() = 0;
  // Names a context for good, also where a later one gets its address.
  virtual StatusOr<uint64_t> ContextId(Context context) = 0;
  // The device of the current context.
  virtual StatusOr<DeviceFacts> CurrentDevice() = 0;
  // Of a device by its number. Makes no context.
  virtual StatusOr<DeviceFacts> DeviceAt(int ordinal) = 0;

  // --- Code, in the current context ---

  // `image` must stay where it is until Unload. Waits for what runs on the device.
  // RESOURCE_EXHAUSTED: there is no memory for it.
  virtual StatusOr<LoadedCode> Load(std::string_view image, const std::string& function) = 0;
  virtual Status Unload(Module module) = 0;
  virtual StatusOr<FunctionFacts> Describe(Function function) = 0;
  // Lets a block have so much dynamic shared memory.
  virtual Status AllowSharedBytes(Function function, int bytes) = 0;
  // Gives shared memory what L1 cache could have had.
  virtual Status PreferSharedMemory(Function function) = 0;
  // Lets clusters be larger than every device has them.
  virtual Status AllowLargeClusters(Function function) = 0;
  // `arguments` has one pointer per parameter, hidden ones included.
  virtual Status Launch(Function function, const DriverLaunch& launch, void** arguments) = 0;
  // IsCapturing and Launch in one, with no word made: the driver's result, which is 0 for a launch,
  // or kNotTried where the stream captures, or does not say. LaunchFailure has the words.
  // REQUIRES: no cluster, no PDL, not cooperative.
  static constexpr int kNotTried = -1;
  virtual int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) = 0;
  virtual Status LaunchFailure(int result) const = 0;
  virtual Status EncodeTensorMap(const TensorMapRequest& request, void* map) = 0;

  // --- Capture ---

  // Cheap; without id and graph. FAILED_PRECONDITION: the stream is the NULL stream, and another
  // one captures, which a launch would end.
  virtual StatusOr<bool> IsCapturing(Stream stream) = 0;
  virtual StatusOr<Capture> CaptureOf(Stream stream) = 0;
  // Swaps the thread's mode: what is potentially unsafe under capture is allowed, or as it was.
  // Returns the mode before.
  virtual int ExchangeCaptureMode(int mode) = 0;
  virtual int relaxed_capture_mode() const = 0;
  // Calls `destroy(data)` once the graph and all that was instantiated from it are gone: on a
  // thread of the driver, where nothing may be asked of it.
  virtual Status OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) = 0;

  // --- Memory, events ---

  // The device whose memory it is. INVALID_ARGUMENT: nobody's that the driver knows of.
  virtual StatusOr<int> DeviceOf(Address address) = 0;
  // The allocation that an address lies in. INVALID_ARGUMENT: it is not device memory.
  virtual StatusOr<MemoryRange> AllocationAt(Address address) = 0;
  // Whether that is one of the pieces of which some allocators map their memory (cuMemMap), so that
  // the next one may belong to the same buffer.
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
  // What comes on the stream from now on waits for the event.
  virtual Status WaitOn(Stream stream, Event event) = 0;
  // Whether everything before it has happened.
  virtual StatusOr<bool> HasHappened(Event event) = 0;
  virtual Status Wait(Event event) = 0;
  virtual StatusOr<float> MillisecondsBetween(Event begin, Event end) = 0;
};

// Makes a context current for as long as it lives. Costs little where it is current already.
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
    // Nothing can be done about a context that does not go.
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

// Keeps what this thread does from ending captures, its own and other threads', for as long as it
// lives.
class ScopedRelaxedCapture {
 public:
  explicit ScopedRelaxedCapture(Driver& driver)
      : driver_(driver), before_(driver.ExchangeCaptureMode(driver.relaxed_capture_mode())) {}
  ~ScopedRelaxedCapture() { driver_.ExchangeCaptureMode(before_); }
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

 private:
  Driver& driver_;
  const int before_;
};

}  // namespace kiln::launch
