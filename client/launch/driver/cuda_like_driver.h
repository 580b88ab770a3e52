// What CUDA's driver and HIP's runtime do in the same way.
#pragma once

#include <string>
#include <string_view>

#include "client/launch/driver/abi.h"
#include "client/launch/driver/driver.h"
#include "client/launch/driver/shared_library.h"

namespace kiln::launch {

// A driver with the functions of abi.h. Thread-safe.
class CudaLikeDriver : public Driver {
 public:
  Status SetContext(Context) override {
    return Unimplemented("a context is made current with the driver's own function");
  }
  StatusOr<DeviceFacts> CurrentDevice() override;
  StatusOr<DeviceFacts> DeviceAt(int ordinal) override;

  StatusOr<LoadedCode> Load(std::string_view image, const KernelMetadata& metadata) override;
  Status Unload(Module module) override;
  StatusOr<FunctionFacts> Describe(Function function) override;

  StatusOr<bool> IsCapturing(Stream stream) override;
  StatusOr<Capture> CaptureOf(Stream stream) override;
  int ExchangeCaptureMode(int mode) override {
    static_cast<void>(Try(driver_.exchange_capture_mode, &mode));
    return mode;
  }
  Status OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) override;

  StatusOr<int> DeviceOf(Address address) override {
    return Get<int>(driver_.pointer_attribute, abi::kPointerDeviceOrdinal, address)
        .Annotate(fmt::format("address {:#x}", address));
  }
  StatusOr<MemoryRange> AllocationAt(Address address) override;
  bool IsMappedPiece(Address address) override;
  StatusOr<Address> AllocateAsync(size_t bytes, Stream stream) override {
    return Get<Address>(driver_.allocate, bytes, stream);
  }
  Status FreeAsync(Address address, Stream stream) override {
    return Call(driver_.free, address, stream);
  }
  Status CopyAsync(Address to, Address from, size_t bytes, Stream stream) override {
    return Call(driver_.copy, to, from, bytes, stream);
  }
  Status FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) override {
    return Call(driver_.fill, to, value, bytes, stream);
  }
  Status Synchronize(Stream stream) override { return Call(driver_.synchronize, stream); }
  StatusOr<Event> MakeEvent() override { return Get<Event>(driver_.create_event, 0u); }
  void DestroyEvent(Event event) override { static_cast<void>(Try(driver_.destroy_event, event)); }
  Status Record(Event event, Stream stream) override { return Call(driver_.record, event, stream); }
  Status WaitOn(Stream stream, Event event) override {
    return Call(driver_.wait_on, stream, event, 0u);
  }
  StatusOr<bool> HasHappened(Event event) override;
  Status Wait(Event event) override { return Call(driver_.wait, event); }
  StatusOr<float> MillisecondsBetween(Event begin, Event end) override {
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

  CudaLikeDriver(std::string_view backend, const SharedLibrary& library,
                 const DeviceAttributes& attributes)
      : Driver(backend, library.id()), attributes_(attributes) {}

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
  // Without a Status, since each launch asks. False: it captures, or the driver does not say.
  bool IsKnownNotToCapture(Stream stream) const {
    int state = 0;
    return Try(driver_.is_capturing, stream, &state) == abi::kSuccess &&
           state == abi::kCaptureStatusNone;
  }

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

  const DeviceAttributes attributes_;
};

}  // namespace kiln::launch
