#include "client/launch/driver/cuda_driver.h"

#include <cstring>

namespace kiln::launch {
namespace {

constexpr int kDriverVersionMin = 12000;

unsigned FillAttributes(const DriverLaunch& launch, abi::LaunchAttribute* attributes) {
  unsigned count = 0;
  const auto add = [&](int id) -> abi::LaunchAttribute& {
    abi::LaunchAttribute& attribute = attributes[count++];
    std::memset(&attribute, 0, sizeof attribute);
    attribute.id = id;
    return attribute;
  };
  if (launch.pdl) add(cuda::kAttributeProgrammaticStreamSerialization).value.flag = 1;
  if (launch.cooperative) add(abi::kAttributeCooperative).value.flag = 1;
  if (launch.cluster[0] != 0) {
    auto& cluster = add(abi::kAttributeClusterDimension).value.cluster;
    cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
    add(cuda::kAttributeClusterSchedulingPolicyPreference).value.flag =
        cuda::kClusterSchedulingPolicySpread;
  }
  return count;
}

}  // namespace

CudaDriver::CudaDriver(const SharedLibrary& library)
    : CudaLikeDriver("cuda", library,
                     {.warp_size = cuda::kWarpSize,
                      .threads_max = cuda::kMaxThreadsPerBlock,
                      .shared_bytes_max = cuda::kMaxSharedMemoryPerBlockOptin,
                      .grid_max_x = cuda::kMaxGridDimX,
                      .l2_bytes = cuda::kL2CacheSize}) {}

StatusOr<std::unique_ptr<Driver>> CudaDriver::Open(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(SharedLibrary library, SharedLibrary::Open({path}));
  std::unique_ptr<CudaDriver> driver(new CudaDriver(library));
#define KILN_REQUIRE_SHARED(member, cuda, hip, ...) library.Require(driver->driver_.member, #cuda);
  KILN_DRIVER_FUNCTIONS(KILN_REQUIRE_SHARED, KILN_REQUIRE_SHARED)
#undef KILN_REQUIRE_SHARED
#define KILN_REQUIRE(name, ...) library.Require(driver->cu_.name, #name);
#define KILN_FIND(name, ...) library.Find(driver->cu_.name, #name);
  KILN_CUDA_FUNCTIONS(KILN_REQUIRE, KILN_FIND)
#undef KILN_FIND
#undef KILN_REQUIRE
  if (library.missing() != nullptr) {
    return Unavailable("{} has no {}: a driver for CUDA 12.0 or later is needed", library.path(),
                       library.missing());
  }
  LAUNCH_ASSIGN_OR_RETURN(const int version, driver->Initialize());
  if (version >= kDriverVersionMin) return std::unique_ptr<Driver>(std::move(driver));
  return Unavailable("the driver is for CUDA {}.{}, one for 12.0 or later is needed",
                     version / 1000, version % 1000 / 10);
}

CudaLikeDriver::ErrorWords CudaDriver::WordsFor(abi::Result result) const {
  ErrorWords words;
  cu_.cuGetErrorName.function(result, &words.name);
  cu_.cuGetErrorString.function(result, &words.text);
  return words;
}

// --- Contexts ---

StatusOr<Context> CudaDriver::PrimaryContext(int device) {
  LAUNCH_RETURN_IF_ERROR(CheckDevice(device));
  return Get<Context>(cu_.cuDevicePrimaryCtxRetain, device)
      .Annotate(fmt::format("device {}", device));
}

Status CudaDriver::CheckDevice(int ordinal) const {
  int device = 0;  // equal to `ordinal`
  return Call(cu_.cuDeviceGet, &device, ordinal).Annotate(fmt::format("device {}", ordinal));
}

StatusOr<std::string> CudaDriver::ArchitectureOf(int device) const {
  LAUNCH_ASSIGN_OR_RETURN(const int major, Attribute(device, cuda::kComputeCapabilityMajor));
  LAUNCH_ASSIGN_OR_RETURN(const int minor, Attribute(device, cuda::kComputeCapabilityMinor));
  return fmt::format("{}{}", major, minor);
}

// --- Code ---

Status CudaDriver::LoadModule(std::string_view image, Module& module) {
  int option = cuda::kLibraryBinaryIsPreserved;  // saves the driver a copy
  void* value = reinterpret_cast<void*>(uintptr_t{1});
  return Call(cu_.cuLibraryLoadData, &module, image.data(), nullptr, nullptr, 0u, &option, &value,
              1u);
}

Status CudaDriver::FindFunction(Module module, const std::string& name, Function& function) {
  abi::Handle kernel = nullptr;
  LAUNCH_RETURN_IF_ERROR(Call(cu_.cuLibraryGetKernel, &kernel, module, name.c_str()));
  LAUNCH_RETURN_IF_ERROR(Call(cu_.cuKernelGetFunction, &function, kernel));
  // Every known driver loads the function when it is looked up; only cuFuncLoad promises it.
  return cu_.cuFuncLoad.function == nullptr ? Status() : Call(cu_.cuFuncLoad, function);
}

StatusOr<FunctionFacts> CudaDriver::Describe(Function function) {
  LAUNCH_ASSIGN_OR_RETURN(FunctionFacts facts, CudaLikeDriver::Describe(function));
  if (cu_.cuFuncGetParamInfo.function == nullptr) return facts;
  std::vector<size_t>& bytes = facts.parameter_bytes.emplace();
  size_t offset = 0;
  size_t size = 0;
  // The end shows as INVALID_VALUE.
  while (Try(cu_.cuFuncGetParamInfo, function, bytes.size(), &offset, &size) == abi::kSuccess) {
    bytes.push_back(size);
  }
  return facts;
}

StatusOr<uint32_t> CudaDriver::ResidentBlocks(Function function, uint32_t threads,
                                              uint32_t dynamic_shared_bytes) {
  const auto& query = cu_.cuOccupancyMaxActiveBlocksPerMultiprocessor;
  LAUNCH_ASSIGN_OR_RETURN(const int device, Get<int>(driver_.current_device));
  LAUNCH_ASSIGN_OR_RETURN(const int takes, Attribute(device, cuda::kCooperativeLaunch));
  if (takes == 0 || query.function == nullptr) {
    return Unimplemented("device {} takes no cooperative launches", device);
  }
  LAUNCH_ASSIGN_OR_RETURN(const int processors, Attribute(device, cuda::kMultiprocessorCount));
  LAUNCH_ASSIGN_OR_RETURN(const int blocks, Get<int>(query, function, static_cast<int>(threads),
                                                     size_t{dynamic_shared_bytes}));
  return static_cast<uint32_t>(blocks) * static_cast<uint32_t>(processors);
}

Status CudaDriver::AllowSharedBytes(Function function, int bytes) {
  return Call(cu_.cuFuncSetAttribute, function, cuda::kFunctionMaxDynamicSharedSizeBytes, bytes)
      .Annotate("MAX_DYNAMIC_SHARED_SIZE_BYTES");
}

Status CudaDriver::AllowLargeClusters(Function function) {
  return Call(cu_.cuFuncSetAttribute, function, cuda::kFunctionNonPortableClusterSizeAllowed, 1)
      .Annotate("NON_PORTABLE_CLUSTER_SIZE_ALLOWED");
}

// --- Launches ---

Status CudaDriver::Launch(Function function, const DriverLaunch& launch, void** arguments) {
  abi::LaunchAttribute attributes[4];
  const unsigned count = FillAttributes(launch, attributes);
  const abi::LaunchConfig config = ConfigOf(launch, attributes, count);
  return Call(cu_.cuLaunchKernelEx, &config, function, arguments, nullptr);
}

abi::Result CudaDriver::LaunchPlain(Function function, const DriverLaunch& launch,
                                    void** arguments) {
  const abi::LaunchConfig config = ConfigOf(launch, nullptr, 0);
  return cu_.cuLaunchKernelEx.function(&config, function, arguments, nullptr);
}

Status CudaDriver::EncodeTensorMap(const TensorMapRequest& request, void* map) {
  if (cu_.cuTensorMapEncodeTiled.function == nullptr) {
    return Unimplemented("this driver has no cuTensorMapEncodeTiled");
  }
  const uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  return Call(cu_.cuTensorMapEncodeTiled, map, request.type, static_cast<uint32_t>(request.rank),
              reinterpret_cast<void*>(request.base), request.shape.data(),
              request.stride_bytes.data(), request.block.data(), element_strides,
              /*interleave=*/0, request.swizzle, cuda::kTensorMapL2Promotion128B,
              request.fills_with_nan ? 1 : 0);
}

}  // namespace kiln::launch
