#include "client/launch/driver/cuda_driver.h"

#include <cstring>

namespace kiln::launch {
namespace {

constexpr int kDriverVersionMin = 12000;

StatusOr<cuda::Functions> FindFunctions(const SharedLibrary& library) {
  cuda::Functions functions;
  std::string missing;
#define KILN_CUDA_OPTIONAL(name, ...) \
  functions.name = reinterpret_cast<decltype(functions.name)>(library.Find(#name));
#define KILN_CUDA_REQUIRED(name, ...)   \
  KILN_CUDA_OPTIONAL(name, __VA_ARGS__) \
  if (functions.name == nullptr && missing.empty()) missing = #name;
  KILN_CUDA_FUNCTIONS(KILN_CUDA_REQUIRED, KILN_CUDA_OPTIONAL)
#undef KILN_CUDA_REQUIRED
#undef KILN_CUDA_OPTIONAL
  if (missing.empty()) return functions;
  return Unavailable("{} has no {}: a driver for CUDA 12.0 or later is needed", library.path(),
                     missing);
}

Code CodeOf(cuda::Result result) {
  switch (result) {
    case cuda::kInvalidValue:
      return Code::kInvalidArgument;
    case cuda::kOutOfMemory:
    case cuda::kLaunchOutOfResources:
    case cuda::kCooperativeLaunchTooLarge:
      return Code::kResourceExhausted;
    case cuda::kNoDevice:
      return Code::kUnavailable;
    case cuda::kInvalidImage:
      return Code::kDataLoss;
    case cuda::kInvalidContext:
    case cuda::kContextIsDestroyed:
    case cuda::kNoBinaryForGpu:
    case cuda::kStreamCaptureImplicit:
      return Code::kFailedPrecondition;
    default:
      return Code::kInternal;
  }
}

int FillAttributes(const DriverLaunch& launch, cuda::LaunchAttribute* attributes) {
  int count = 0;
  const auto add = [&](int id) -> cuda::LaunchAttribute& {
    cuda::LaunchAttribute& attribute = attributes[count++];
    std::memset(&attribute, 0, sizeof attribute);
    attribute.id = id;
    return attribute;
  };
  if (launch.pdl) add(cuda::kAttributeProgrammaticStreamSerialization).value.flag = 1;
  if (launch.cooperative) add(cuda::kAttributeCooperative).value.flag = 1;
  if (launch.cluster[0] != 0) {
    auto& cluster = add(cuda::kAttributeClusterDimension).value.cluster;
    cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
    add(cuda::kAttributeClusterSchedulingPolicyPreference).value.flag =
        cuda::kClusterSchedulingPolicySpread;
  }
  return count;
}

cuda::LaunchConfig ConfigOf(const DriverLaunch& launch, cuda::LaunchAttribute* attributes,
                            int count) {
  return {
      {launch.grid[0], launch.grid[1], launch.grid[2]},
      {launch.block[0], launch.block[1], launch.block[2]},
      launch.dynamic_shared_bytes,
      launch.stream,
      attributes,
      static_cast<unsigned>(count),
  };
}

}  // namespace

StatusOr<std::unique_ptr<Driver>> CudaDriver::Open(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(path));
  return Open(library);
}

StatusOr<std::unique_ptr<Driver>> CudaDriver::Open(const SharedLibrary& library) {
  LAUNCH_ASSIGN_OR_RETURN(const cuda::Functions functions, FindFunctions(library));
  std::unique_ptr<CudaDriver> driver(new CudaDriver(functions));
  if (const cuda::Result result = functions.cuInit(0); result != cuda::kSuccess) {
    const Status failure = driver->Failure(result, "cuInit");
    return Status(Code::kUnavailable, fmt::format("no GPU here: {}", failure.message()), result);
  }
  int version = 0;
  LAUNCH_RETURN_IF_ERROR(
      driver->Check(functions.cuDriverGetVersion(&version), "cuDriverGetVersion"));
  if (version < kDriverVersionMin) {
    return Unavailable("the driver is for CUDA {}.{}, one for 12.0 or later is needed",
                       version / 1000, version % 1000 / 10);
  }
  return std::unique_ptr<Driver>(std::move(driver));
}

Status CudaDriver::Failure(cuda::Result result, std::string_view function) const {
  const char* name = nullptr;
  const char* words = nullptr;
  cu_.cuGetErrorName(result, &name);
  cu_.cuGetErrorString(result, &words);
  return Status(CodeOf(result),
                fmt::format("{}: {} ({}): {}", function, name == nullptr ? "unknown error" : name,
                            result, words == nullptr ? "the driver has no words for it" : words),
                result);
}

// --- Contexts ---

StatusOr<Context> CudaDriver::CurrentContext() {
  cuda::Handle context = nullptr;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
  return context;
}

StatusOr<Context> CudaDriver::PrimaryContext(int device) {
  cuda::Device handle = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuDeviceGet(&handle, device), "cuDeviceGet")
                             .Annotate(fmt::format("device {}", device)));
  cuda::Handle context = nullptr;
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain")
          .Annotate(fmt::format("device {}", device)));
  return context;
}

Status CudaDriver::PushContext(Context context) {
  return Check(cu_.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
}

Status CudaDriver::PopContext() {
  cuda::Handle context = nullptr;
  return Check(cu_.cuCtxPopCurrent_v2(&context), "cuCtxPopCurrent");
}

StatusOr<uint64_t> CudaDriver::ContextId(Context context) {
  unsigned long long id = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuCtxGetId(context, &id), "cuCtxGetId"));
  return uint64_t{id};
}

StatusOr<int> CudaDriver::Attribute(cuda::Device device, int attribute) const {
  int value = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute"));
  return value;
}

StatusOr<DeviceFacts> CudaDriver::CurrentDevice() {
  cuda::Device device = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuCtxGetDevice(&device), "cuCtxGetDevice"));
  return FactsOf(device);
}

StatusOr<DeviceFacts> CudaDriver::DeviceAt(int ordinal) {
  cuda::Device device = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuDeviceGet(&device, ordinal), "cuDeviceGet")
                             .Annotate(fmt::format("device {}", ordinal)));
  return FactsOf(device);
}

StatusOr<DeviceFacts> CudaDriver::FactsOf(cuda::Device device) const {
  DeviceFacts facts;
  facts.ordinal = device;
  char name[256] = {};
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName"));
  facts.name = name;
  LAUNCH_ASSIGN_OR_RETURN(const int major, Attribute(device, cuda::kComputeCapabilityMajor));
  LAUNCH_ASSIGN_OR_RETURN(const int minor, Attribute(device, cuda::kComputeCapabilityMinor));
  facts.architecture = fmt::format("{}{}", major, minor);
  LAUNCH_ASSIGN_OR_RETURN(facts.warp_size, Attribute(device, cuda::kWarpSize));
  LAUNCH_ASSIGN_OR_RETURN(facts.threads_max, Attribute(device, cuda::kMaxThreadsPerBlock));
  LAUNCH_ASSIGN_OR_RETURN(facts.shared_bytes_max,
                          Attribute(device, cuda::kMaxSharedMemoryPerBlockOptin));
  for (int axis = 0; axis < 3; ++axis) {
    LAUNCH_ASSIGN_OR_RETURN(facts.grid_max[static_cast<size_t>(axis)],
                            Attribute(device, cuda::kMaxGridDimX + axis));
  }
  LAUNCH_ASSIGN_OR_RETURN(facts.l2_bytes, Attribute(device, cuda::kL2CacheSize));
  int version = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuDriverGetVersion(&version), "cuDriverGetVersion"));
  facts.driver_version = version;
  return facts;
}

// --- Code ---

StatusOr<cuda::Handle> CudaDriver::FunctionOf(cuda::Handle library, const std::string& name) const {
  cuda::Handle kernel = nullptr;
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuLibraryGetKernel(&kernel, library, name.c_str()), "cuLibraryGetKernel"));
  cuda::Handle function = nullptr;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction"));
  // Getting the function loads it on every driver known; this is the promise of it.
  if (cu_.cuFuncLoad != nullptr) {
    LAUNCH_RETURN_IF_ERROR(Check(cu_.cuFuncLoad(function), "cuFuncLoad"));
  }
  return function;
}

StatusOr<LoadedCode> CudaDriver::Load(std::string_view image, const std::string& function) {
  LoadedCode code;
  int option = cuda::kLibraryBinaryIsPreserved;  // saves the driver a copy
  void* value = reinterpret_cast<void*>(uintptr_t{1});
  LAUNCH_RETURN_IF_ERROR(Check(
      cu_.cuLibraryLoadData(&code.module, image.data(), nullptr, nullptr, 0, &option, &value, 1),
      "cuLibraryLoadData"));
  StatusOr<cuda::Handle> found = FunctionOf(code.module, function);
  if (!found.ok()) {
    cu_.cuLibraryUnload(code.module);
    return found.status();
  }
  code.function = *found;
  return code;
}

Status CudaDriver::Unload(Module module) {
  const cuda::Result result = cu_.cuLibraryUnload(module);
  // The context, or at the end of the process the driver, has unloaded it already.
  if (result == cuda::kContextIsDestroyed || result == cuda::kDeinitialized) return Status();
  return Check(result, "cuLibraryUnload");
}

std::optional<std::vector<size_t>> CudaDriver::ParameterBytes(Function function) const {
  if (cu_.cuFuncGetParamInfo == nullptr) return std::nullopt;
  std::vector<size_t> bytes;
  size_t offset = 0;
  size_t size = 0;
  // The end shows as INVALID_VALUE.
  while (cu_.cuFuncGetParamInfo(function, bytes.size(), &offset, &size) == cuda::kSuccess) {
    bytes.push_back(size);
  }
  return bytes;
}

StatusOr<FunctionFacts> CudaDriver::Describe(Function function) {
  FunctionFacts facts;
  const auto read = [&](int attribute, int& out) {
    return Check(cu_.cuFuncGetAttribute(&out, attribute, function), "cuFuncGetAttribute");
  };
  LAUNCH_RETURN_IF_ERROR(read(cuda::kFunctionNumRegs, facts.registers));
  LAUNCH_RETURN_IF_ERROR(read(cuda::kFunctionLocalSizeBytes, facts.local_bytes));
  LAUNCH_RETURN_IF_ERROR(read(cuda::kFunctionSharedSizeBytes, facts.static_shared_bytes));
  LAUNCH_RETURN_IF_ERROR(read(cuda::kFunctionMaxThreadsPerBlock, facts.threads_max));
  facts.parameter_bytes = ParameterBytes(function);
  return facts;
}

Status CudaDriver::AllowSharedBytes(Function function, int bytes) {
  return Check(cu_.cuFuncSetAttribute(function, cuda::kFunctionMaxDynamicSharedSizeBytes, bytes),
               "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
}

Status CudaDriver::PreferSharedMemory(Function function) {
  return Check(cu_.cuFuncSetCacheConfig(function, cuda::kCachePreferShared),
               "cuFuncSetCacheConfig");
}

Status CudaDriver::AllowLargeClusters(Function function) {
  return Check(cu_.cuFuncSetAttribute(function, cuda::kFunctionNonPortableClusterSizeAllowed, 1),
               "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)");
}

Status CudaDriver::Launch(Function function, const DriverLaunch& launch, void** arguments) {
  cuda::LaunchAttribute attributes[4];
  const int count = FillAttributes(launch, attributes);
  const cuda::LaunchConfig config = ConfigOf(launch, attributes, count);
  return Check(cu_.cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
}

int CudaDriver::LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) {
  int state = 0;
  if (cu_.cuStreamIsCapturing(launch.stream, &state) != cuda::kSuccess ||
      state != cuda::kCaptureStatusNone) {
    return kNotTried;
  }
  const cuda::LaunchConfig config = ConfigOf(launch, nullptr, 0);
  return cu_.cuLaunchKernelEx(&config, function, arguments, nullptr);
}

Status CudaDriver::LaunchFailure(int result) const { return Failure(result, "cuLaunchKernelEx"); }

Status CudaDriver::EncodeTensorMap(const TensorMapRequest& request, void* map) {
  if (cu_.cuTensorMapEncodeTiled == nullptr) {
    return Unimplemented("this driver has no cuTensorMapEncodeTiled");
  }
  const uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  return Check(
      cu_.cuTensorMapEncodeTiled(map, request.type, static_cast<uint32_t>(request.rank),
                                 reinterpret_cast<void*>(request.base), request.shape.data(),
                                 request.stride_bytes.data(), request.block.data(), element_strides,
                                 /*interleave=*/0, request.swizzle, cuda::kTensorMapL2Promotion128B,
                                 request.fills_with_nan ? 1 : 0),
      "cuTensorMapEncodeTiled");
}

// --- Capture ---

StatusOr<bool> CudaDriver::IsCapturing(Stream stream) {
  int state = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuStreamIsCapturing(stream, &state), "cuStreamIsCapturing"));
  return state == cuda::kCaptureStatusActive;
}

StatusOr<Capture> CudaDriver::CaptureOf(Stream stream) {
  Capture capture;
  int state = 0;
  LAUNCH_RETURN_IF_ERROR(Check(
      cu_.cuStreamGetCaptureInfo_v2(stream, &state, &capture.id, &capture.graph, nullptr, nullptr),
      "cuStreamGetCaptureInfo"));
  capture.is_active = state == cuda::kCaptureStatusActive;
  return capture;
}

int CudaDriver::ExchangeCaptureMode(int mode) {
  cu_.cuThreadExchangeStreamCaptureMode(&mode);
  return mode;
}

Status CudaDriver::OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) {
  cuda::Handle object = nullptr;
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuUserObjectCreate(&object, data, destroy, 1, cuda::kUserObjectNoDestructorSync),
            "cuUserObjectCreate"));
  // A failure leaks the object: releasing it would call `destroy`.
  return Check(cu_.cuGraphRetainUserObject(graph, object, 1, cuda::kGraphUserObjectMove),
               "cuGraphRetainUserObject");
}

// --- Memory, events ---

StatusOr<int> CudaDriver::DeviceOf(Address address) {
  int ordinal = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuPointerGetAttribute(&ordinal, cuda::kPointerDeviceOrdinal, address),
            "cuPointerGetAttribute")
          .Annotate(fmt::format("address {:#x}", address)));
  return ordinal;
}

StatusOr<MemoryRange> CudaDriver::AllocationAt(Address address) {
  cuda::DevicePointer begin = 0;
  size_t bytes = 0;
  const cuda::Result result = cu_.cuMemGetAddressRange_v2(&begin, &bytes, address);
  if (result == cuda::kNotFound || result == cuda::kInvalidValue) {
    return InvalidArgument("{:#x} is not device memory", address);
  }
  LAUNCH_RETURN_IF_ERROR(Check(result, "cuMemGetAddressRange"));
  return MemoryRange{begin, bytes};
}

bool CudaDriver::IsMappedPiece(Address address) {
  uint64_t handle = 0;
  void* pointer = reinterpret_cast<void*>(address);
  if (cu_.cuMemRetainAllocationHandle(&handle, pointer) != cuda::kSuccess) return false;
  cu_.cuMemRelease(handle);
  return true;
}

StatusOr<Address> CudaDriver::AllocateAsync(size_t bytes, Stream stream) {
  cuda::DevicePointer address = 0;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuMemAllocAsync(&address, bytes, stream), "cuMemAllocAsync"));
  return Address{address};
}

Status CudaDriver::FreeAsync(Address address, Stream stream) {
  return Check(cu_.cuMemFreeAsync(address, stream), "cuMemFreeAsync");
}

Status CudaDriver::CopyAsync(Address to, Address from, size_t bytes, Stream stream) {
  return Check(cu_.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "cuMemcpyDtoDAsync");
}

Status CudaDriver::FillAsync(Address to, uint8_t value, size_t bytes, Stream stream) {
  return Check(cu_.cuMemsetD8Async(to, value, bytes, stream), "cuMemsetD8Async");
}

Status CudaDriver::Synchronize(Stream stream) {
  return Check(cu_.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

StatusOr<Event> CudaDriver::MakeEvent() {
  cuda::Handle event = nullptr;
  LAUNCH_RETURN_IF_ERROR(Check(cu_.cuEventCreate(&event, 0), "cuEventCreate"));
  return event;
}

void CudaDriver::DestroyEvent(Event event) { cu_.cuEventDestroy_v2(event); }

Status CudaDriver::Record(Event event, Stream stream) {
  return Check(cu_.cuEventRecord(event, stream), "cuEventRecord");
}

Status CudaDriver::WaitOn(Stream stream, Event event) {
  return Check(cu_.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
}

StatusOr<bool> CudaDriver::HasHappened(Event event) {
  const cuda::Result result = cu_.cuEventQuery(event);
  if (result == cuda::kNotReady) return false;
  LAUNCH_RETURN_IF_ERROR(Check(result, "cuEventQuery"));
  return true;
}

Status CudaDriver::Wait(Event event) {
  return Check(cu_.cuEventSynchronize(event), "cuEventSynchronize");
}

StatusOr<float> CudaDriver::MillisecondsBetween(Event begin, Event end) {
  float milliseconds = 0;
  LAUNCH_RETURN_IF_ERROR(
      Check(cu_.cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime"));
  return milliseconds;
}

}  // namespace kiln::launch
