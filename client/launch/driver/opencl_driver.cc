#include "client/launch/driver/opencl_driver.h"

#include <algorithm>

#include "client/launch/driver/opencl_program.h"

namespace kiln::launch {
namespace {

// The thread's contexts, the current one last.
thread_local std::vector<Context> contexts_now;

// An event of this library may be recorded several times, a cl_event only once.
struct Marker {
  opencl::Handle event = nullptr;
};
opencl::Handle EventOf(Event event) { return static_cast<Marker*>(event)->event; }

Status CheckQueue(Stream stream) {
  if (IsMadeStream(stream)) return Status();
  return InvalidArgument("stream {} is not a cl_command_queue: OpenCL has no default stream",
                         stream);
}

OpenClProgram& ProgramOf(void* handle) { return *static_cast<OpenClProgram*>(handle); }

void* PointerTo(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace

OpenClDriver::OpenClDriver(OpenClCalls calls, std::vector<OpenClDevice> devices)
    : Driver("spirv", calls.library_id()),
      calls_(std::move(calls)),
      cl_(calls_.functions()),
      devices_(std::move(devices)),
      primary_(devices_.size()) {}

StatusOr<std::unique_ptr<Driver>> OpenClDriver::Open(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(OpenClCalls calls, OpenClCalls::Open(path));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<OpenClDevice> devices, ListOpenClDevices(calls));
  return std::unique_ptr<Driver>(new OpenClDriver(std::move(calls), std::move(devices)));
}

// --- Contexts ---

StatusOr<Context> OpenClDriver::CurrentContext() {
  return contexts_now.empty() ? nullptr : contexts_now.back();
}

StatusOr<Context> OpenClDriver::PrimaryContext(int ordinal) {
  LAUNCH_ASSIGN_OR_RETURN(const OpenClDevice* device, DeviceNumbered(ordinal));
  const MutexLock lock(mutex_);
  Context& context = primary_[static_cast<size_t>(ordinal)];
  if (context == nullptr) {
    const intptr_t properties[] = {opencl::kContextPlatform,
                                   reinterpret_cast<intptr_t>(device->platform), 0};
    LAUNCH_ASSIGN_OR_RETURN(
        context,
        OpenClCalls::Make(cl_.clCreateContext, properties, 1u, &device->id, nullptr, nullptr)
            .Annotate(fmt::format("device {} ({})", ordinal, device->facts.name)));
    contexts_[context] = device;
  }
  return context;
}

Status OpenClDriver::SetContext(Context context) {
  if (context != nullptr) LAUNCH_RETURN_IF_ERROR(Adopt(context));
  contexts_now.clear();
  if (context != nullptr) contexts_now.push_back(context);
  return Status();
}

Status OpenClDriver::PushContext(Context context) {
  contexts_now.push_back(context);
  return Status();
}

Status OpenClDriver::PopContext() {
  contexts_now.pop_back();
  return Status();
}

Status OpenClDriver::Adopt(Context context) {
  const MutexLock lock(mutex_);
  if (contexts_.contains(context)) return Status();
  size_t bytes = 0;
  LAUNCH_RETURN_IF_ERROR(OpenClCalls::Call(cl_.clGetContextInfo, context, opencl::kContextDevices,
                                           size_t{0}, nullptr, &bytes));
  if (bytes != sizeof(opencl::Handle)) {
    return FailedPrecondition("the context has {} devices: make one context for each device",
                              bytes / sizeof(opencl::Handle));
  }
  LAUNCH_ASSIGN_OR_RETURN(
      const auto id,
      OpenClCalls::Ask<opencl::Handle>(cl_.clGetContextInfo, context, opencl::kContextDevices));
  const auto device = std::find_if(devices_.begin(), devices_.end(),
                                   [&](const OpenClDevice& known) { return known.id == id; });
  if (device == devices_.end()) {
    return FailedPrecondition("the context's device is none of those that OpenCL lists");
  }
  LAUNCH_RETURN_IF_ERROR(OpenClCalls::Call(cl_.clRetainContext, context));
  contexts_[context] = &*device;
  return Status();
}

StatusOr<const OpenClDevice*> OpenClDriver::Here() {
  if (contexts_now.empty()) return FailedPrecondition("no context is current on this thread");
  const MutexLock lock(mutex_);
  const auto found = contexts_.find(contexts_now.back());
  if (found != contexts_.end()) return found->second;
  return FailedPrecondition("the current context belongs to another OpenCL loader");
}

StatusOr<const OpenClDevice*> OpenClDriver::DeviceNumbered(int ordinal) const {
  if (ordinal >= 0 && static_cast<size_t>(ordinal) < devices_.size()) {
    return &devices_[static_cast<size_t>(ordinal)];
  }
  return InvalidArgument("there is no device {}, there are {}", ordinal, devices_.size());
}

StatusOr<DeviceFacts> OpenClDriver::CurrentDevice() {
  LAUNCH_ASSIGN_OR_RETURN(const OpenClDevice* device, Here());
  return device->facts;
}

StatusOr<DeviceFacts> OpenClDriver::DeviceAt(int ordinal) {
  LAUNCH_ASSIGN_OR_RETURN(const OpenClDevice* device, DeviceNumbered(ordinal));
  return device->facts;
}

// --- Code ---

StatusOr<LoadedCode> OpenClDriver::Load(std::string_view image, const KernelMetadata& metadata) {
  LAUNCH_ASSIGN_OR_RETURN(const OpenClDevice* device, Here());
  LAUNCH_ASSIGN_OR_RETURN(
      std::unique_ptr<OpenClProgram> program,
      OpenClProgram::Build(calls_, *device, contexts_now.back(), image, metadata));
  OpenClProgram* both = program.release();
  return LoadedCode{both, both};
}

Status OpenClDriver::Unload(Module module) {
  delete &ProgramOf(module);
  return Status();
}

StatusOr<FunctionFacts> OpenClDriver::Describe(Function function) {
  return ProgramOf(function).Describe();
}

Status OpenClDriver::Launch(Function function, const DriverLaunch& launch, void** arguments) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(launch.stream));
  if (launch.pdl || launch.cooperative || launch.cluster[0] != 0) {
    return Unimplemented(
        "OpenCL has neither programmatic dependent launches nor cooperative ones nor clusters");
  }
  if (launch.dynamic_shared_bytes > 0) {
    return Unimplemented(
        "OpenCL has no dynamic shared memory: a parameter in local memory takes its length");
  }
  return ProgramOf(function).Launch(launch, arguments);
}

// --- Memory ---

// At a multiple of 128 by OpenCL's rules. Not in stream order: nobody has the memory yet.
StatusOr<Address> OpenClDriver::AllocateAsync(size_t bytes, Stream) {
  void* memory = contexts_now.empty() ? nullptr
                                      : cl_.clSVMAlloc.function(contexts_now.back(),
                                                                opencl::kMemReadWrite, bytes, 0);
  if (memory != nullptr) return Address{reinterpret_cast<uintptr_t>(memory)};
  return ResourceExhausted("clSVMAlloc gives no {} bytes", bytes);
}

Status OpenClDriver::FreeAsync(Address address, Stream stream) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(stream));
  void* memory[] = {PointerTo(address)};
  return OpenClCalls::Call(cl_.clEnqueueSVMFree, stream, 1u, memory, nullptr, nullptr, 0u, nullptr,
                           nullptr);
}

Status OpenClDriver::CopyAsync(Address to, Address from, size_t bytes, Stream stream) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(stream));
  LAUNCH_ASSIGN_OR_RETURN(const OpenClDevice* device, Here());
  return OpenClCalls::Call(device->memory.copy, stream, 0u, PointerTo(to), PointerTo(from), bytes,
                           0u, nullptr, nullptr);
}

Status OpenClDriver::FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(stream));
  LAUNCH_ASSIGN_OR_RETURN(const OpenClDevice* device, Here());
  return OpenClCalls::Call(device->memory.fill, stream, PointerTo(to), &value, sizeof value, bytes,
                           0u, nullptr, nullptr);
}

Status OpenClDriver::Synchronize(Stream stream) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(stream));
  return OpenClCalls::Call(cl_.clFinish, stream);
}

// --- Events ---

StatusOr<Event> OpenClDriver::MakeEvent() { return static_cast<Event>(new Marker); }

void OpenClDriver::DestroyEvent(Event event) {
  if (EventOf(event) != nullptr) cl_.clReleaseEvent.function(EventOf(event));
  delete static_cast<Marker*>(event);
}

Status OpenClDriver::Record(Event event, Stream stream) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(stream));
  opencl::Handle made = nullptr;
  LAUNCH_RETURN_IF_ERROR(
      OpenClCalls::Call(cl_.clEnqueueMarkerWithWaitList, stream, 0u, nullptr, &made));
  if (EventOf(event) != nullptr) cl_.clReleaseEvent.function(EventOf(event));
  static_cast<Marker*>(event)->event = made;
  // Another queue that waits for the event, or HasHappened, would not make it happen.
  return OpenClCalls::Call(cl_.clFlush, stream);
}

Status OpenClDriver::WaitOn(Stream stream, Event event) {
  LAUNCH_RETURN_IF_ERROR(CheckQueue(stream));
  const opencl::Handle marker = EventOf(event);
  return OpenClCalls::Call(cl_.clEnqueueBarrierWithWaitList, stream, 1u, &marker, nullptr);
}

StatusOr<bool> OpenClDriver::HasHappened(Event event) {
  LAUNCH_ASSIGN_OR_RETURN(const int state,
                          OpenClCalls::Ask<int>(cl_.clGetEventInfo, EventOf(event),
                                                opencl::kEventCommandExecutionStatus));
  if (state >= opencl::kComplete) return state == opencl::kComplete;
  return OpenClCalls::Failure(state, "a command before the event");
}

Status OpenClDriver::Wait(Event event) {
  const opencl::Handle marker = EventOf(event);
  return OpenClCalls::Call(cl_.clWaitForEvents, 1u, &marker);
}

StatusOr<float> OpenClDriver::MillisecondsBetween(Event begin, Event end) {
  const auto time_of = [&](Event event) {
    return OpenClCalls::Ask<uint64_t>(cl_.clGetEventProfilingInfo, EventOf(event),
                                      opencl::kProfilingCommandEnd)
        .Annotate("launches are measured on a queue with CL_QUEUE_PROFILING_ENABLE");
  };
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t begin_ns, time_of(begin));
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t end_ns, time_of(end));
  return static_cast<float>(static_cast<double>(end_ns - begin_ns) / 1e6);
}

}  // namespace kiln::launch
