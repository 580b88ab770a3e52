#include "client/launch/driver/hip_driver.h"

#include <cstring>
#include <vector>

namespace kiln::launch {
namespace {

// ROCm says 10,000,000 × major + 100,000 × minor + patch.
constexpr int kHipVersionMin = 60'000'000;

// The names in ROCm's packages and in the wheels of frameworks.
const std::vector<std::string>& HipLibraryNames() {
  static const auto& names =
      *new std::vector<std::string>{"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"};
  return names;
}

StatusOr<hip::Functions> FindHipFunctions(const SharedLibrary& library) {
  hip::Functions functions;
  std::string missing;
#define KILN_HIP_OPTIONAL(name, ...) \
  functions.name = reinterpret_cast<decltype(functions.name)>(library.Find(#name));
#define KILN_HIP_REQUIRED(name, ...)   \
  KILN_HIP_OPTIONAL(name, __VA_ARGS__) \
  if (functions.name == nullptr && missing.empty()) missing = #name;
  KILN_HIP_FUNCTIONS(KILN_HIP_REQUIRED, KILN_HIP_OPTIONAL)
#undef KILN_HIP_REQUIRED
#undef KILN_HIP_OPTIONAL
  if (missing.empty()) return functions;
  return Unavailable("{} has no {}: ROCm 6.0 or later is needed", library.path(), missing);
}

Code CodeOfHip(hip::Result result) {
  switch (result) {
    case hip::kInvalidValue:
    case hip::kInvalidConfiguration:
    case hip::kInvalidDevice:
      return Code::kInvalidArgument;
    case hip::kOutOfMemory:
    case hip::kLaunchOutOfResources:
    case hip::kCooperativeLaunchTooLarge:
      return Code::kResourceExhausted;
    case hip::kNoDevice:
      return Code::kUnavailable;
    case hip::kInvalidImage:
      return Code::kDataLoss;
    case hip::kInvalidContext:
    case hip::kContextIsDestroyed:
    case hip::kNoBinaryForGpu:
    case hip::kStreamCaptureImplicit:
      return Code::kFailedPrecondition;
    case hip::kNotSupported:
      return Code::kUnimplemented;
    default:
      return Code::kInternal;
  }
}

Context ContextOfDevice(int device) {
  return reinterpret_cast<Context>(static_cast<uintptr_t>(device) + 1);
}
int DeviceOfContext(Context context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}
void* PointerTo(Address address) { return reinterpret_cast<void*>(address); }
Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// What PopContext goes back to.
thread_local std::vector<int> devices_before;

}  // namespace

StatusOr<std::unique_ptr<Driver>> HipDriver::Open(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const SharedLibrary library, OpenLibrary(path));
  return Open(library);
}

StatusOr<SharedLibrary> HipDriver::OpenLibrary(const std::string& path) {
  return path.empty() ? SharedLibrary::OpenFirst(HipLibraryNames()) : SharedLibrary::Open(path);
}

StatusOr<std::unique_ptr<Driver>> HipDriver::Open(const SharedLibrary& library) {
  LAUNCH_ASSIGN_OR_RETURN(const hip::Functions functions, FindHipFunctions(library));
  std::unique_ptr<HipDriver> driver(new HipDriver(functions));
  if (const hip::Result result = functions.hipInit(0); result != hip::kSuccess) {
    const Status failure = driver->Failure(result, "hipInit");
    return Status(Code::kUnavailable, fmt::format("no GPU here: {}", failure.message()), result);
  }
  int version = 0;
  LAUNCH_RETURN_IF_ERROR(
      driver->Check(functions.hipDriverGetVersion(&version), "hipDriverGetVersion"));
  if (version < kHipVersionMin) {
    return Unavailable("the HIP runtime is {}.{}, 6.0 or later is needed", version / 10'000'000,
                       version % 10'000'000 / 100'000);
  }
  return std::unique_ptr<Driver>(std::move(driver));
}

Status HipDriver::Failure(hip::Result result, std::string_view function) const {
  // Clears the error: a framework would take it for the error of its own next call.
  static_cast<void>(hip_.hipGetLastError());
  const char* name = hip_.hipGetErrorName(result);
  const char* words = hip_.hipGetErrorString(result);
  return Status(CodeOfHip(result),
                fmt::format("{}: {} ({}): {}", function, name == nullptr ? "unknown error" : name,
                            result, words == nullptr ? "the runtime has no words for it" : words),
                result);
}

// --- Contexts ---

StatusOr<Context> HipDriver::CurrentContext() {
  int device = 0;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipGetDevice(&device), "hipGetDevice"));
  return ContextOfDevice(device);
}

StatusOr<Context> HipDriver::PrimaryContext(int device) {
  int count = 0;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipGetDeviceCount(&count), "hipGetDeviceCount"));
  if (device < 0 || device >= count) {
    return InvalidArgument("there is no device {}, there are {}", device, count);
  }
  return ContextOfDevice(device);
}

Status HipDriver::PushContext(Context context) {
  int before = 0;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipGetDevice(&before), "hipGetDevice"));
  // Noted first: without memory for that, the thread would stay on the other device.
  devices_before.push_back(before);
  Status status = Check(hip_.hipSetDevice(DeviceOfContext(context)), "hipSetDevice");
  if (!status.ok()) devices_before.pop_back();
  return status;
}

Status HipDriver::PopContext() {
  const int before = devices_before.back();
  devices_before.pop_back();
  return Check(hip_.hipSetDevice(before), "hipSetDevice");
}

StatusOr<uint64_t> HipDriver::ContextId(Context context) { return AddressOf(context); }

StatusOr<int> HipDriver::Attribute(int device, int attribute) const {
  int value = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipDeviceGetAttribute(&value, attribute, device), "hipDeviceGetAttribute"));
  return value;
}

StatusOr<std::string> HipDriver::ArchitectureOf(int device) const {
  const auto properties = std::make_unique<hip::DeviceProperties>();
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipGetDevicePropertiesR0600(properties.get(), device), "hipGetDeviceProperties"));
  const char* name = properties->bytes + hip::kArchitectureNameOffset;
  return std::string(name, ::strnlen(name, hip::kArchitectureNameBytes));
}

StatusOr<DeviceFacts> HipDriver::CurrentDevice() {
  int device = 0;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipGetDevice(&device), "hipGetDevice"));
  return DeviceAt(device);
}

StatusOr<DeviceFacts> HipDriver::DeviceAt(int device) {
  LAUNCH_RETURN_IF_ERROR(PrimaryContext(device).status());
  DeviceFacts facts;
  facts.ordinal = device;
  char name[256] = {};
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipDeviceGetName(name, sizeof name - 1, facts.ordinal), "hipDeviceGetName"));
  facts.name = name;
  LAUNCH_ASSIGN_OR_RETURN(facts.architecture, ArchitectureOf(facts.ordinal));
  LAUNCH_ASSIGN_OR_RETURN(facts.warp_size, Attribute(facts.ordinal, hip::kWarpSize));
  LAUNCH_ASSIGN_OR_RETURN(facts.threads_max, Attribute(facts.ordinal, hip::kMaxThreadsPerBlock));
  LAUNCH_ASSIGN_OR_RETURN(facts.shared_bytes_max,
                          Attribute(facts.ordinal, hip::kMaxSharedMemoryPerBlock));
  for (int axis = 0; axis < 3; ++axis) {
    LAUNCH_ASSIGN_OR_RETURN(facts.grid_max[static_cast<size_t>(axis)],
                            Attribute(facts.ordinal, hip::kMaxGridDimX + axis));
  }
  LAUNCH_ASSIGN_OR_RETURN(facts.l2_bytes, Attribute(facts.ordinal, hip::kL2CacheSize));
  int version = 0;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipDriverGetVersion(&version), "hipDriverGetVersion"));
  facts.driver_version = version;
  return facts;
}

// --- Code ---

StatusOr<LoadedCode> HipDriver::Load(std::string_view image, const std::string& function) {
  LoadedCode code;
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipModuleLoadData(&code.module, image.data()), "hipModuleLoadData"));
  const Status status =
      Check(hip_.hipModuleGetFunction(&code.function, code.module, function.c_str()),
            "hipModuleGetFunction");
  if (status.ok()) return code;
  static_cast<void>(hip_.hipModuleUnload(code.module));
  return status;
}

Status HipDriver::Unload(Module module) {
  const hip::Result result = hip_.hipModuleUnload(module);
  // It went with the whole runtime at the process's end.
  if (result == hip::kDeinitialized) return Status();
  return Check(result, "hipModuleUnload");
}

StatusOr<FunctionFacts> HipDriver::Describe(Function function) {
  FunctionFacts facts;
  const auto read = [&](int attribute, int& out) {
    return Check(hip_.hipFuncGetAttribute(&out, attribute, function), "hipFuncGetAttribute");
  };
  LAUNCH_RETURN_IF_ERROR(read(hip::kFunctionNumRegs, facts.registers));
  LAUNCH_RETURN_IF_ERROR(read(hip::kFunctionLocalSizeBytes, facts.local_bytes));
  LAUNCH_RETURN_IF_ERROR(read(hip::kFunctionSharedSizeBytes, facts.static_shared_bytes));
  LAUNCH_RETURN_IF_ERROR(read(hip::kFunctionMaxThreadsPerBlock, facts.threads_max));
  return facts;
}

Status HipDriver::Launch(Function function, const DriverLaunch& launch, void** arguments) {
  if (launch.pdl) return Unimplemented("HIP has no programmatic dependent launch");
  if (launch.cooperative || launch.cluster[0] != 0) {
    LAUNCH_RETURN_IF_ERROR(CheckIsNotCapturing(launch.stream));
  }
  const auto& [x, y, z] = launch.grid;
  const auto& [block_x, block_y, block_z] = launch.block;
  if (launch.cluster[0] != 0) return LaunchClusters(function, launch, arguments);
  if (launch.cooperative) {
    return Check(hip_.hipModuleLaunchCooperativeKernel(function, x, y, z, block_x, block_y, block_z,
                                                       launch.dynamic_shared_bytes, launch.stream,
                                                       arguments),
                 "hipModuleLaunchCooperativeKernel");
  }
  return Check(
      hip_.hipModuleLaunchKernel(function, x, y, z, block_x, block_y, block_z,
                                 launch.dynamic_shared_bytes, launch.stream, arguments, nullptr),
      "hipModuleLaunchKernel");
}

int HipDriver::LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) {
  int state = 0;
  hip::Result result = hip_.hipStreamIsCapturing(launch.stream, &state);
  if (result == hip::kSuccess) {
    if (state != hip::kCaptureStatusNone) return kNotTried;
    const auto& [x, y, z] = launch.grid;
    const auto& [block_x, block_y, block_z] = launch.block;
    result =
        hip_.hipModuleLaunchKernel(function, x, y, z, block_x, block_y, block_z,
                                   launch.dynamic_shared_bytes, launch.stream, arguments, nullptr);
    if (result == hip::kSuccess) return 0;
  } else {
    result = kNotTried;
  }
  // The launch is tried another way: clear the error.
  static_cast<void>(hip_.hipGetLastError());
  return result;
}

Status HipDriver::LaunchFailure(int result) const {
  return Failure(result, "hipModuleLaunchKernel");
}

// Some runtimes make these launches at once, beside the graph that is to have them.
Status HipDriver::CheckIsNotCapturing(Stream stream) {
  LAUNCH_ASSIGN_OR_RETURN(const bool is_capturing, IsCapturing(stream));
  if (!is_capturing) return Status();
  return Unimplemented("HIP does not capture cooperative launches and clusters in every version");
}

Status HipDriver::LaunchClusters(Function function, const DriverLaunch& launch, void** arguments) {
  if (hip_.hipDrvLaunchKernelEx == nullptr) {
    return Unimplemented("this HIP runtime has no hipDrvLaunchKernelEx, which clusters need");
  }
  hip::LaunchAttribute attributes[2];
  std::memset(attributes, 0, sizeof attributes);
  attributes[0].id = hip::kAttributeClusterDimension;
  attributes[0].value.cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  attributes[1].id = hip::kAttributeCooperative;
  attributes[1].value.flag = launch.cooperative ? 1 : 0;
  const hip::LaunchConfig config = {
      {launch.grid[0], launch.grid[1], launch.grid[2]},
      {launch.block[0], launch.block[1], launch.block[2]},
      launch.dynamic_shared_bytes,
      launch.stream,
      attributes,
      2,
  };
  return Check(hip_.hipDrvLaunchKernelEx(&config, function, arguments, nullptr),
               "hipDrvLaunchKernelEx");
}

Status HipDriver::EncodeTensorMap(const TensorMapRequest&, void*) {
  return Unimplemented("AMD GPUs have no tensor maps, and this library no descriptors of theirs");
}

// --- Capture ---

StatusOr<bool> HipDriver::IsCapturing(Stream stream) {
  int state = 0;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipStreamIsCapturing(stream, &state), "hipStreamIsCapturing"));
  return state == hip::kCaptureStatusActive;
}

StatusOr<Capture> HipDriver::CaptureOf(Stream stream) {
  Capture capture;
  int state = 0;
  unsigned long long id = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipStreamGetCaptureInfo_v2(stream, &state, &id, &capture.graph, nullptr, nullptr),
            "hipStreamGetCaptureInfo"));
  capture.id = id;
  capture.is_active = state == hip::kCaptureStatusActive;
  return capture;
}

int HipDriver::ExchangeCaptureMode(int mode) {
  static_cast<void>(hip_.hipThreadExchangeStreamCaptureMode(&mode));
  return mode;
}

Status HipDriver::OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) {
  hip::Handle object = nullptr;
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipUserObjectCreate(&object, data, destroy, 1, hip::kUserObjectNoDestructorSync),
            "hipUserObjectCreate"));
  // A failure leaks the object: releasing it would call `destroy`.
  return Check(hip_.hipGraphRetainUserObject(graph, object, 1, hip::kGraphUserObjectMove),
               "hipGraphRetainUserObject");
}

// --- Memory, events ---

StatusOr<int> HipDriver::DeviceOf(Address address) {
  int ordinal = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipPointerGetAttribute(&ordinal, hip::kPointerDeviceOrdinal, PointerTo(address)),
            "hipPointerGetAttribute")
          .Annotate(fmt::format("address {:#x}", address)));
  return ordinal;
}

StatusOr<MemoryRange> HipDriver::AllocationAt(Address address) {
  hip::DevicePointer begin = nullptr;
  size_t bytes = 0;
  const hip::Result result = hip_.hipMemGetAddressRange(&begin, &bytes, PointerTo(address));
  const Status status = Check(result, "hipMemGetAddressRange");
  if (result == hip::kNotFound || result == hip::kInvalidValue) {
    return InvalidArgument("{:#x} is not device memory", address);
  }
  LAUNCH_RETURN_IF_ERROR(status);
  return MemoryRange{AddressOf(begin), bytes};
}

bool HipDriver::IsMappedPiece(Address address) {
  if (hip_.hipMemRetainAllocationHandle == nullptr || hip_.hipMemRelease == nullptr) return false;
  hip::Handle handle = nullptr;
  const hip::Result result = hip_.hipMemRetainAllocationHandle(&handle, PointerTo(address));
  if (!Check(result, "hipMemRetainAllocationHandle").ok()) return false;
  return Check(hip_.hipMemRelease(handle), "hipMemRelease").ok();
}

StatusOr<Address> HipDriver::AllocateAsync(size_t bytes, Stream stream) {
  hip::DevicePointer pointer = nullptr;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipMallocAsync(&pointer, bytes, stream), "hipMallocAsync"));
  return AddressOf(pointer);
}

Status HipDriver::FreeAsync(Address address, Stream stream) {
  return Check(hip_.hipFreeAsync(PointerTo(address), stream), "hipFreeAsync");
}

Status HipDriver::CopyAsync(Address to, Address from, size_t bytes, Stream stream) {
  return Check(hip_.hipMemcpyDtoDAsync(PointerTo(to), PointerTo(from), bytes, stream),
               "hipMemcpyDtoDAsync");
}

Status HipDriver::FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) {
  return Check(hip_.hipMemsetD8Async(PointerTo(to), value, bytes, stream), "hipMemsetD8Async");
}

Status HipDriver::Synchronize(Stream stream) {
  return Check(hip_.hipStreamSynchronize(stream), "hipStreamSynchronize");
}

StatusOr<Event> HipDriver::MakeEvent() {
  hip::Handle event = nullptr;
  LAUNCH_RETURN_IF_ERROR(Check(hip_.hipEventCreateWithFlags(&event, 0), "hipEventCreateWithFlags"));
  return event;
}

void HipDriver::DestroyEvent(Event event) { static_cast<void>(hip_.hipEventDestroy(event)); }

Status HipDriver::Record(Event event, Stream stream) {
  return Check(hip_.hipEventRecord(event, stream), "hipEventRecord");
}

Status HipDriver::WaitOn(Stream stream, Event event) {
  return Check(hip_.hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent");
}

StatusOr<bool> HipDriver::HasHappened(Event event) {
  const hip::Result result = hip_.hipEventQuery(event);
  const Status status = Check(result, "hipEventQuery");
  if (result == hip::kNotReady) return false;
  LAUNCH_RETURN_IF_ERROR(status);
  return true;
}

Status HipDriver::Wait(Event event) {
  return Check(hip_.hipEventSynchronize(event), "hipEventSynchronize");
}

StatusOr<float> HipDriver::MillisecondsBetween(Event begin, Event end) {
  float milliseconds = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(hip_.hipEventElapsedTime(&milliseconds, begin, end), "hipEventElapsedTime"));
  return milliseconds;
}

}  // namespace kiln::launch
