// The HIP runtime, for AMD GPUs.
#pragma once

#include <memory>
#include <string>

#include "client/launch/driver/driver.h"
#include "client/launch/driver/hip_abi.h"
#include "client/launch/driver/shared_library.h"

namespace kiln::launch {

// Opens libamdhip64.so, under the names it has, or another library with its functions; where the
// process has one loaded, that one. Needs ROCm 6.0 or later. UNAVAILABLE: none, no device, or too
// old.
//
// HIP has no contexts: a device stands for its context. A module belongs to the device that was
// current when it was loaded.
class HipDriver final : public Driver {
 public:
  // Empty path: the default names.
  static StatusOr<SharedLibrary> OpenLibrary(const std::string& path);
  static StatusOr<std::unique_ptr<Driver>> Open(const SharedLibrary& library);
  static StatusOr<std::unique_ptr<Driver>> Open(const std::string& path);

  std::string_view backend() const override { return "hip"; }

  StatusOr<Context> CurrentContext() override;
  StatusOr<Context> PrimaryContext(int device) override;
  Status PushContext(Context context) override;
  Status PopContext() override;
  StatusOr<uint64_t> ContextId(Context context) override;
  StatusOr<DeviceFacts> CurrentDevice() override;
  StatusOr<DeviceFacts> DeviceAt(int device) override;

  StatusOr<LoadedCode> Load(std::string_view image, const std::string& function) override;
  Status Unload(Module module) override;
  StatusOr<FunctionFacts> Describe(Function function) override;
  // Not necessary: a block may use all local memory of the device. hipFuncSetAttribute does not
  // take functions of modules.
  Status AllowSharedBytes(Function, int) override { return Status(); }
  Status PreferSharedMemory(Function) override { return Status(); }
  Status AllowLargeClusters(Function) override { return Status(); }
  Status Launch(Function function, const DriverLaunch& launch, void** arguments) override;
  int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) override;
  Status LaunchFailure(int result) const override;
  Status EncodeTensorMap(const TensorMapRequest& request, void* map) override;

  StatusOr<bool> IsCapturing(Stream stream) override;
  StatusOr<Capture> CaptureOf(Stream stream) override;
  int ExchangeCaptureMode(int mode) override;
  int relaxed_capture_mode() const override { return hip::kCaptureModeRelaxed; }
  Status OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) override;

  StatusOr<int> DeviceOf(Address address) override;
  StatusOr<MemoryRange> AllocationAt(Address address) override;
  bool IsMappedPiece(Address address) override;
  StatusOr<Address> AllocateAsync(size_t bytes, Stream stream) override;
  Status FreeAsync(Address address, Stream stream) override;
  Status CopyAsync(Address to, Address from, size_t bytes, Stream stream) override;
  Status FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) override;
  Status Synchronize(Stream stream) override;
  StatusOr<Event> MakeEvent() override;
  void DestroyEvent(Event event) override;
  Status Record(Event event, Stream stream) override;
  Status WaitOn(Stream stream, Event event) override;
  StatusOr<bool> HasHappened(Event event) override;
  Status Wait(Event event) override;
  StatusOr<float> MillisecondsBetween(Event begin, Event end) override;

 private:
  explicit HipDriver(const hip::Functions& functions) : hip_(functions) {}
  Status Check(hip::Result result, std::string_view function) const {
    return result == hip::kSuccess ? Status() : Failure(result, function);
  }
  Status Failure(hip::Result result, std::string_view function) const;
  StatusOr<int> Attribute(int device, int attribute) const;
  StatusOr<std::string> ArchitectureOf(int device) const;
  Status CheckIsNotCapturing(Stream stream);
  Status LaunchClusters(Function function, const DriverLaunch& launch, void** arguments);

  const hip::Functions hip_;
};

}  // namespace kiln::launch
