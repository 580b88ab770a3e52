#include "client/launch/driver/cuda_like_driver.h"

namespace kiln::launch {
namespace {

Code CodeOf(abi::Result result) {
  switch (result) {
    case abi::kInvalidValue:
    case abi::kInvalidConfiguration:
    case abi::kInvalidDevice:
      return Code::kInvalidArgument;
    case abi::kOutOfMemory:
    case abi::kLaunchOutOfResources:
    case abi::kCooperativeLaunchTooLarge:
      return Code::kResourceExhausted;
    case abi::kNoDevice:
      return Code::kUnavailable;
    case abi::kInvalidImage:
      return Code::kDataLoss;
    case abi::kInvalidContext:
    case abi::kContextIsDestroyed:
    case abi::kNoBinaryForGpu:
    case abi::kStreamCaptureImplicit:
      return Code::kFailedPrecondition;
    case abi::kNotSupported:
      return Code::kUnimplemented;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Status CudaLikeDriver::Failure(abi::Result result, std::string_view function) const {
  // The references name functions without the version of their symbol.
  if (function.ends_with("_v2")) function.remove_suffix(3);
  const ErrorWords words = WordsFor(result);
  return Status(
      CodeOf(result),
      fmt::format("{}: {} ({}): {}", function, words.name == nullptr ? "unknown error" : words.name,
                  result, words.text == nullptr ? "the driver has no words for it" : words.text),
      result);
}

StatusOr<int> CudaLikeDriver::Initialize() {
  if (const Status status = Call(driver_.init, 0u); !status.ok()) {
    return Status(Code::kUnavailable, fmt::format("no GPU here: {}", status.message()),
                  status.driver_result());
  }
  return Get<int>(driver_.version);
}

// --- Devices ---

StatusOr<DeviceFacts> CudaLikeDriver::CurrentDevice() {
  LAUNCH_ASSIGN_OR_RETURN(const int device, Get<int>(driver_.current_device));
  return FactsOf(device);
}

StatusOr<DeviceFacts> CudaLikeDriver::DeviceAt(int ordinal) {
  LAUNCH_RETURN_IF_ERROR(CheckDevice(ordinal));
  return FactsOf(ordinal);
}

StatusOr<DeviceFacts> CudaLikeDriver::FactsOf(int device) const {
  DeviceFacts facts;
  facts.ordinal = device;
  char name[256] = {};
  LAUNCH_RETURN_IF_ERROR(
      Call(driver_.device_name, name, static_cast<int>(sizeof name - 1), device));
  facts.name = name;
  LAUNCH_ASSIGN_OR_RETURN(facts.architecture, ArchitectureOf(device));
  LAUNCH_ASSIGN_OR_RETURN(facts.warp_size, Attribute(device, attributes_.warp_size));
  LAUNCH_ASSIGN_OR_RETURN(facts.threads_max, Attribute(device, attributes_.threads_max));
  LAUNCH_ASSIGN_OR_RETURN(facts.shared_bytes_max, Attribute(device, attributes_.shared_bytes_max));
  for (int axis = 0; axis < 3; ++axis) {
    LAUNCH_ASSIGN_OR_RETURN(facts.grid_max[static_cast<size_t>(axis)],
                            Attribute(device, attributes_.grid_max_x + axis));
  }
  LAUNCH_ASSIGN_OR_RETURN(facts.l2_bytes, Attribute(device, attributes_.l2_bytes));
  LAUNCH_ASSIGN_OR_RETURN(facts.driver_version, Get<int>(driver_.version));
  return facts;
}

// --- Code ---

StatusOr<LoadedCode> CudaLikeDriver::Load(std::string_view image, const KernelMetadata& metadata) {
  LoadedCode code;
  LAUNCH_RETURN_IF_ERROR(LoadModule(image, code.module));
  const Status status = FindFunction(code.module, metadata.name, code.function);
  if (status.ok()) return code;
  static_cast<void>(Try(driver_.unload, code.module));
  return status;
}

Status CudaLikeDriver::Unload(Module module) {
  const abi::Result result = Try(driver_.unload, module);
  // The context, or at the end of the process the driver, has unloaded it already.
  if (result == abi::kSuccess || result == abi::kContextIsDestroyed ||
      result == abi::kDeinitialized) {
    return Status();
  }
  return Failure(result, driver_.unload.name);
}

StatusOr<FunctionFacts> CudaLikeDriver::Describe(Function function) {
  FunctionFacts facts;
  for (const auto& [attribute, out] : {std::pair{abi::kFunctionNumRegs, &facts.registers},
                                       {abi::kFunctionLocalSizeBytes, &facts.local_bytes},
                                       {abi::kFunctionSharedSizeBytes, &facts.static_shared_bytes},
                                       {abi::kFunctionMaxThreadsPerBlock, &facts.threads_max}}) {
    LAUNCH_RETURN_IF_ERROR(Call(driver_.function_attribute, out, attribute, function));
  }
  return facts;
}

// --- Capture ---

StatusOr<bool> CudaLikeDriver::IsCapturing(Stream stream) {
  int state = 0;
  LAUNCH_RETURN_IF_ERROR(Call(driver_.is_capturing, stream, &state));
  return state == abi::kCaptureStatusActive;
}

StatusOr<Capture> CudaLikeDriver::CaptureOf(Stream stream) {
  Capture capture;
  int state = 0;
  LAUNCH_RETURN_IF_ERROR(
      Call(driver_.capture_info, stream, &state, &capture.id, &capture.graph, nullptr, nullptr));
  capture.is_active = state == abi::kCaptureStatusActive;
  return capture;
}

Status CudaLikeDriver::OnGraphDestroyed(Graph graph, void (*destroy)(void*), void* data) {
  abi::Handle object = nullptr;
  LAUNCH_RETURN_IF_ERROR(Call(driver_.create_user_object, &object, data, destroy, 1u,
                              abi::kUserObjectNoDestructorSync));
  // A failure leaks the object: releasing it would call `destroy`.
  return Call(driver_.retain_user_object, graph, object, 1u, abi::kGraphUserObjectMove);
}

// --- Memory, events ---

StatusOr<MemoryRange> CudaLikeDriver::AllocationAt(Address address) {
  MemoryRange range;
  const abi::Result result = Try(driver_.address_range, &range.begin, &range.bytes, address);
  if (result == abi::kSuccess) return range;
  if (result == abi::kNotFound || result == abi::kInvalidValue) {
    return InvalidArgument("{:#x} is not device memory", address);
  }
  return Failure(result, driver_.address_range.name);
}

bool CudaLikeDriver::IsMappedPiece(Address address) {
  if (driver_.retain_allocation.function == nullptr ||
      driver_.release_allocation.function == nullptr) {
    return false;
  }
  uint64_t handle = 0;
  return Try(driver_.retain_allocation, &handle, address) == abi::kSuccess &&
         Try(driver_.release_allocation, handle) == abi::kSuccess;
}

StatusOr<bool> CudaLikeDriver::HasHappened(Event event) {
  const abi::Result result = Try(driver_.query_event, event);
  if (result == abi::kSuccess || result == abi::kNotReady) return result == abi::kSuccess;
  return Failure(result, driver_.query_event.name);
}

}  // namespace kiln::launch
