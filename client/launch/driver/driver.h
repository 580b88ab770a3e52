// A GPU driver: CUDA's or HIP's.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/status.h"
#include "client/launch/driver/abi.h"
#include "client/launch/driver/shared_library.h"

namespace kiln::launch {

using Address = uint64_t;  // in the device's memory
using Context = void*;     // CUDA: CUcontext. HIP, which has none: the device's number plus one
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
  std::string architecture;  // "90", "gfx942:sramecc+:xnack-"
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

// One driver library, opened at run time. Every failure names the driver's function, the error's
// name and its text. Thread-safe; "the current context" is the calling thread's. UNIMPLEMENTED:
// this driver does not have the function.
class Driver {
 public:
  virtual ~Driver() = default;

  // "cuda", "hip": as in a kernel's target.
  std::string_view backend() const { return backend_; }
  // Equal for two drivers of one library, whatever names opened it.
  const void* library_id() const { return library_id_; }

  // --- Contexts ---

  // Null: no context is current.
  virtual StatusOr<Context> CurrentContext() = 0;
  // The primary context of a device. Makes it if necessary, and never releases it.
  virtual StatusOr<Context> PrimaryContext(int device) = 0;
  virtual Status PushContext(Context context) = 0;
  virtual Status PopContext() = 0;
  // A number that no later context gets.
  virtual StatusOr<uint64_t> ContextId(Context context) = 0;
  // The device of the current context.
  StatusOr<DeviceFacts> CurrentDevice();
  // Facts about a device by its number. Makes no context.
  StatusOr<DeviceFacts> DeviceAt(int ordinal);

  // --- Code, in the current context ---

  // `image` must stay in place until Unload. Waits for the device. RESOURCE_EXHAUSTED: no memory.
  StatusOr<LoadedCode> Load(std::string_view image, const std::string& function);
  Status Unload(Module module);
  virtual StatusOr<FunctionFacts> Describe(Function function);
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
  int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) {
    int state = 0;
    if (Try(driver_.is_capturing, launch.stream, &state) != abi::kSuccess ||
        state != abi::kCaptureStatusNone) {
      return kNotTried;
    }
    return LaunchPlain(function, launch, arguments);
  }
  virtual Status LaunchFailure(int result) const = 0;
  virtual Status EncodeTensorMap(const TensorMapRequest& request, void* map) = 0;

  // --- Capture ---

  // Cheap. FAILED_PRECONDITION: the stream is the NULL stream, and another stream captures; a
  // launch would end that capture.
  StatusOr<bool> IsCapturing(Stream stream);
  StatusOr<Capture> CaptureOf(Stream stream);
  // Sets the thread's capture mode and returns the mode before.
  int ExchangeCaptureMode(int mode) {
    static_cast<void>(Try(driver_.exchange_capture_mode, &mode));
    return mode;
  }
  // Calls `destroy(data)` once the graph and all its instances are destroyed, on a thread of the
  // driver. `destroy` must not call the driver.
  Status OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data);

  // --- Memory, events ---

  // The device that the address belongs to. INVALID_ARGUMENT: the driver does not know the address.
  StatusOr<int> DeviceOf(Address address) {
    return Get<int>(driver_.pointer_attribute, abi::kPointerDeviceOrdinal, address)
        .Annotate(fmt::format("address {:#x}", address));
  }
  // The allocation that an address lies in. INVALID_ARGUMENT: it is not device memory.
  StatusOr<MemoryRange> AllocationAt(Address address);
  // Whether the address lies in a piece of memory that an allocator mapped (cuMemMap). The next
  // piece may belong to the same buffer.
  bool IsMappedPiece(Address address);
  // In stream order.
  StatusOr<Address> AllocateAsync(size_t bytes, Stream stream) {
    return Get<Address>(driver_.allocate, bytes, stream);
  }
  Status FreeAsync(Address address, Stream stream) { return Call(driver_.free, address, stream); }
  Status CopyAsync(Address to, Address from, size_t bytes, Stream stream) {
    return Call(driver_.copy, to, from, bytes, stream);
  }
  Status FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) {
    return Call(driver_.fill, to, value, bytes, stream);
  }
  Status Synchronize(Stream stream) { return Call(driver_.synchronize, stream); }
  StatusOr<Event> MakeEvent() { return Get<Event>(driver_.create_event, 0u); }
  void DestroyEvent(Event event) { static_cast<void>(Try(driver_.destroy_event, event)); }
  Status Record(Event event, Stream stream) { return Call(driver_.record, event, stream); }
  // Later work on the stream waits for the event.
  Status WaitOn(Stream stream, Event event) { return Call(driver_.wait_on, stream, event, 0u); }
  // Whether everything before it has happened.
  StatusOr<bool> HasHappened(Event event);
  Status Wait(Event event) { return Call(driver_.wait, event); }
  StatusOr<float> MillisecondsBetween(Event begin, Event end) {
    return Get<float>(driver_.elapsed_time, begin, end);
  }

 protected:
  // The driver's numbers for what DeviceFacts has.
  struct DeviceAttributes {
    int warp_size;
    int threads_max;
    int shared_bytes_max;
    int grid_max_x;  // y and z follow
    int l2_bytes;
  };

  Driver(std::string_view backend, const SharedLibrary& library, const DeviceAttributes& attributes)
      : backend_(backend), library_id_(library.id()), attributes_(attributes) {}

  // Initialises the driver and returns its version. UNAVAILABLE: there is no GPU.
  StatusOr<int> Initialize();
  StatusOr<int> Attribute(int device, int attribute) const {
    return Get<int>(driver_.device_attribute, attribute, device);
  }
  // INVALID_ARGUMENT: there is no such device.
  virtual Status CheckDevice(int ordinal) const = 0;
  virtual StatusOr<std::string> ArchitectureOf(int device) const = 0;
  virtual Status LoadModule(std::string_view image, Module& module) = 0;
  virtual Status FindFunction(Module module, const std::string& name, Function& function) = 0;
  // Launch without its rarer attributes.
  virtual abi::Result LaunchPlain(Function function, const DriverLaunch& launch,
                                  void** arguments) = 0;

  // The driver's name for an error, and its text. Null: it has none.
  struct ErrorWords {
    const char* name = nullptr;
    const char* text = nullptr;
  };
  virtual ErrorWords WordsFor(abi::Result result) const = 0;
  // Clears the error that the runtime would report again after the program's own next call.
  virtual void ForgetError() const {}
  Status Failure(abi::Result result, std::string_view function) const;

  // Calls a function of the driver: Try for its result, Call for a status, Get for the value that
  // it gives through its first argument.
  template <typename Type, typename... Arguments>
  abi::Result Try(const abi::EntryPoint<Type>& entry, Arguments... arguments) const {
    const abi::Result result = entry.function(arguments...);
    if (result != abi::kSuccess) ForgetError();
    return result;
  }
  template <typename Type, typename... Arguments>
  Status Call(const abi::EntryPoint<Type>& entry, Arguments... arguments) const {
    const abi::Result result = Try(entry, arguments...);
    return result == abi::kSuccess ? Status() : Failure(result, entry.name);
  }
  template <typename Value, typename Type, typename... Arguments>
  StatusOr<Value> Get(const abi::EntryPoint<Type>& entry, Arguments... arguments) const {
    Value value{};
    LAUNCH_RETURN_IF_ERROR(Call(entry, &value, arguments...));
    return value;
  }

  static abi::LaunchConfig ConfigOf(const DriverLaunch& launch, abi::LaunchAttribute* attributes,
                                    unsigned count) {
    return {{launch.grid[0], launch.grid[1], launch.grid[2]},
            {launch.block[0], launch.block[1], launch.block[2]},
            launch.dynamic_shared_bytes,
            launch.stream,
            attributes,
            count};
  }

  abi::Functions driver_;

 private:
  StatusOr<DeviceFacts> FactsOf(int device) const;

  const std::string_view backend_;
  const void* const library_id_;
  const DeviceAttributes attributes_;
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
