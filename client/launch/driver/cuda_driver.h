// The CUDA driver.
#pragma once

#include <memory>
#include <string>

#include "client/launch/driver/cuda_abi.h"
#include "client/launch/driver/driver.h"
#include "client/launch/driver/shared_library.h"

namespace kiln::launch {

// Opens libcuda.so.1, or another library with its functions, and initialises it. Needs a driver of
// CUDA 12.0 or later. UNAVAILABLE: no driver, no device, or too old.
class CudaDriver final : public Driver {
 public:
  static constexpr const char* kDefaultPath = "libcuda.so.1";
  static StatusOr<std::unique_ptr<Driver>> Open(const std::string& path);
  static StatusOr<std::unique_ptr<Driver>> Open(const SharedLibrary& library);

  std::string_view backend() const override { return "cuda"; }

  StatusOr<Context> CurrentContext() override;
  StatusOr<Context> PrimaryContext(int device) override;
  Status PushContext(Context context) override;
  Status PopContext() override;
  StatusOr<uint64_t> ContextId(Context context) override;
  StatusOr<DeviceFacts> CurrentDevice() override;
  StatusOr<DeviceFacts> DeviceAt(int ordinal) override;

  StatusOr<LoadedCode> Load(std::string_view image, const std::string& function) override;
  Status Unload(Module module) override;
  StatusOr<FunctionFacts> Describe(Function function) override;
  Status AllowSharedBytes(Function function, int bytes) override;
  Status PreferSharedMemory(Function function) override;
  Status AllowLargeClusters(Function function) override;
  Status Launch(Function function, const DriverLaunch& launch, void** arguments) override;
  int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) override;
  Status LaunchFailure(int result) const override;
  Status EncodeTensorMap(const TensorMapRequest& request, void* map) override;

  StatusOr<bool> IsCapturing(Stream stream) override;
  StatusOr<Capture> CaptureOf(Stream stream) override;
  int ExchangeCaptureMode(int mode) override;
  int relaxed_capture_mode() const override { return cuda::kCaptureModeRelaxed; }
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
  explicit CudaDriver(const cuda::Functions& functions) : cu_(functions) {}
  Status Check(cuda::Result result, std::string_view function) const {
    return result == cuda::kSuccess ? Status() : Failure(result, function);
  }
  Status Failure(cuda::Result result, std::string_view function) const;
  StatusOr<int> Attribute(cuda::Device device, int attribute) const;
  StatusOr<DeviceFacts> FactsOf(cuda::Device device) const;
  StatusOr<cuda::Handle> FunctionOf(cuda::Handle library, const std::string& name) const;
  std::optional<std::vector<size_t>> ParameterBytes(Function function) const;

  const cuda::Functions cu_;
};

}  // namespace kiln::launch
