// OpenCL, for devices that take SPIR-V: Intel's GPUs, and CPUs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/driver/opencl_calls.h"
#include "client/launch/driver/opencl_device.h"
#include "storage/base/mutex.h"

namespace kiln::launch {

// Opens OpenCL's loader, libOpenCL.so.1, which opens the platforms of this machine. UNAVAILABLE: no
// loader, no device, or a loader before OpenCL 2.1.
//
// Contexts are cl_context, of one device; OpenCL has no current one, so this class keeps one for
// each thread. Streams are cl_command_queue; there is no NULL stream. Addresses are pointers to
// unified shared memory or SVM. Nothing captures.
class OpenClDriver final : public Driver {
 public:
  static StatusOr<std::unique_ptr<Driver>> Open(const std::string& path = "libOpenCL.so.1");

  StatusOr<Context> CurrentContext() override;
  StatusOr<Context> PrimaryContext(int device) override;
  Status SetContext(Context context) override;
  Status PushContext(Context context) override;
  Status PopContext() override;
  // The driver holds each context that it has seen, so no other one gets its address.
  StatusOr<uint64_t> ContextId(Context context) override {
    return uint64_t{reinterpret_cast<uintptr_t>(context)};
  }
  StatusOr<DeviceFacts> CurrentDevice() override;
  StatusOr<DeviceFacts> DeviceAt(int ordinal) override;

  StatusOr<LoadedCode> Load(std::string_view image, const KernelMetadata& metadata) override;
  Status Unload(Module module) override;
  StatusOr<FunctionFacts> Describe(Function function) override;
  Status AllowSharedBytes(Function, int) override { return Status(); }
  Status PreferSharedMemory(Function) override { return Status(); }
  Status AllowLargeClusters(Function) override { return Status(); }
  Status Launch(Function function, const DriverLaunch& launch, void** arguments) override;
  // A launch is many calls, and each may fail: Launch says which.
  int LaunchUncaptured(Function, const DriverLaunch&, void**) override { return kNotTried; }
  Status LaunchFailure(int) const override { return Internal("OpenCL says no more"); }
  Status EncodeTensorMap(const TensorMapRequest&, void*) override {
    return Unimplemented("OpenCL has no tensor maps");
  }

  StatusOr<bool> IsCapturing(Stream) override { return false; }
  StatusOr<Capture> CaptureOf(Stream) override { return Capture(); }
  int ExchangeCaptureMode(int mode) override { return mode; }
  Status OnGraphDestroyed(Graph, void (*)(void*), void*) override {
    return Unimplemented("OpenCL captures no graphs");
  }

  StatusOr<int> DeviceOf(Address) override {
    return Unimplemented("OpenCL does not say which device an address belongs to");
  }
  // OpenCL does not say where an allocation ends.
  StatusOr<MemoryRange> AllocationAt(Address address) override {
    return MemoryRange{address, UINT64_MAX - address};
  }
  bool IsMappedPiece(Address) override { return false; }
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
  // FAILED_PRECONDITION: the queue was made without CL_QUEUE_PROFILING_ENABLE.
  StatusOr<float> MillisecondsBetween(Event begin, Event end) override;

 private:
  OpenClDriver(OpenClCalls calls, std::vector<OpenClDevice> devices);
  // Notes a caller's context. FAILED_PRECONDITION: it is not a context of one known device.
  Status Adopt(Context context);
  // The device of the current context.
  StatusOr<const OpenClDevice*> Here();
  StatusOr<const OpenClDevice*> DeviceNumbered(int ordinal) const;

  const OpenClCalls calls_;
  const opencl::Functions& cl_;
  const std::vector<OpenClDevice> devices_;
  Mutex mutex_;
  std::vector<Context> primary_ KILN_GUARDED_BY(mutex_);  // by device; null: not yet made
  std::map<Context, const OpenClDevice*> contexts_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln::launch
