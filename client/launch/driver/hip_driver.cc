#include "client/launch/driver/hip_driver.h"

#include <cstring>
#include <vector>

namespace kiln::launch {
namespace {

// ROCm says 10,000,000 × major + 100,000 × minor + patch.
constexpr int kHipVersionMin = 60'000'000;

Context ContextOfDevice(int device) {
  return reinterpret_cast<Context>(static_cast<uintptr_t>(device) + 1);
}
int DeviceOfContext(Context context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}

// The devices that PopContext returns to.
thread_local std::vector<int> devices_before;

}  // namespace

HipDriver::HipDriver(const SharedLibrary& library)
    : CudaLikeDriver("hip", library,
                     {.warp_size = hip::kWarpSize,
                      .threads_max = hip::kMaxThreadsPerBlock,
                      .shared_bytes_max = hip::kMaxSharedMemoryPerBlock,
                      .grid_max_x = hip::kMaxGridDimX,
                      .l2_bytes = hip::kL2CacheSize}) {}

StatusOr<std::unique_ptr<Driver>> HipDriver::Open(const std::string& path) {
  // The default names are those in ROCm's packages and in the wheels of frameworks.
  const std::vector<std::string> names{"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"};
  LAUNCH_ASSIGN_OR_RETURN(SharedLibrary library,
                          SharedLibrary::Open(path.empty() ? names : std::vector{path}));
  std::unique_ptr<HipDriver> driver(new HipDriver(library));
#define KILN_REQUIRE_SHARED(member, cuda, hip, ...) library.Require(driver->driver_.member, #hip);
#define KILN_FIND_SHARED(member, cuda, hip, ...) library.Find(driver->driver_.member, #hip);
  KILN_DRIVER_FUNCTIONS(KILN_REQUIRE_SHARED, KILN_FIND_SHARED)
#undef KILN_FIND_SHARED
#undef KILN_REQUIRE_SHARED
#define KILN_REQUIRE(name, ...) library.Require(driver->hip_.name, #name);
#define KILN_FIND(name, ...) library.Find(driver->hip_.name, #name);
  KILN_HIP_FUNCTIONS(KILN_REQUIRE, KILN_FIND)
#undef KILN_FIND
#undef KILN_REQUIRE
  if (library.missing() != nullptr) {
    return Unavailable("{} has no {}: ROCm 6.0 or later is needed", library.path(),
                       library.missing());
  }
  LAUNCH_ASSIGN_OR_RETURN(const int version, driver->Initialize());
  if (version >= kHipVersionMin) return std::unique_ptr<Driver>(std::move(driver));
  return Unavailable("the HIP runtime is {}.{}, 6.0 or later is needed", version / 10'000'000,
                     version % 10'000'000 / 100'000);
}

// --- Contexts ---

StatusOr<Context> HipDriver::CurrentContext() {
  LAUNCH_ASSIGN_OR_RETURN(const int device, Get<int>(driver_.current_device));
  return ContextOfDevice(device);
}

StatusOr<Context> HipDriver::PrimaryContext(int device) {
  LAUNCH_RETURN_IF_ERROR(CheckDevice(device));
  return ContextOfDevice(device);
}

Status HipDriver::PushContext(Context context) {
  LAUNCH_ASSIGN_OR_RETURN(const int before, Get<int>(driver_.current_device));
  LAUNCH_RETURN_IF_ERROR(Call(hip_.hipSetDevice, DeviceOfContext(context)));
  devices_before.push_back(before);
  return Status();
}

Status HipDriver::PopContext() {
  const int before = devices_before.back();
  devices_before.pop_back();
  return Call(hip_.hipSetDevice, before);
}

Status HipDriver::CheckDevice(int ordinal) const {
  LAUNCH_ASSIGN_OR_RETURN(const int count, Get<int>(hip_.hipGetDeviceCount));
  if (ordinal >= 0 && ordinal < count) return Status();
  return InvalidArgument("there is no device {}, there are {}", ordinal, count);
}

StatusOr<std::string> HipDriver::ArchitectureOf(int device) const {
  const auto properties = std::make_unique<hip::DeviceProperties>();
  LAUNCH_RETURN_IF_ERROR(Call(hip_.hipGetDevicePropertiesR0600, properties.get(), device));
  const char* name = properties->bytes + hip::kArchitectureNameOffset;
  return std::string(name, ::strnlen(name, hip::kArchitectureNameBytes));
}

// --- Code ---

Status HipDriver::Launch(Function function, const DriverLaunch& launch, void** arguments) {
  if (launch.pdl) return Unimplemented("HIP has no programmatic dependent launch");
  if (launch.cooperative || launch.cluster[0] != 0) {
    LAUNCH_ASSIGN_OR_RETURN(const bool is_capturing, IsCapturing(launch.stream));
    // Some runtimes run these launches at once instead of capturing them.
    if (is_capturing) {
      return Unimplemented(
          "HIP does not capture cooperative launches and clusters in every version");
    }
  }
  if (launch.cluster[0] != 0) return LaunchClusters(function, launch, arguments);
  if (launch.cooperative) {
    return Call(hip_.hipModuleLaunchCooperativeKernel, function, launch.grid[0], launch.grid[1],
                launch.grid[2], launch.block[0], launch.block[1], launch.block[2],
                launch.dynamic_shared_bytes, launch.stream, arguments);
  }
  const abi::Result result = LaunchPlain(function, launch, arguments);
  return result == abi::kSuccess ? Status() : LaunchFailure(result);
}

abi::Result HipDriver::LaunchPlain(Function function, const DriverLaunch& launch,
                                   void** arguments) {
  return Try(hip_.hipModuleLaunchKernel, function, launch.grid[0], launch.grid[1], launch.grid[2],
             launch.block[0], launch.block[1], launch.block[2], launch.dynamic_shared_bytes,
             launch.stream, arguments, nullptr);
}

Status HipDriver::LaunchClusters(Function function, const DriverLaunch& launch, void** arguments) {
  if (hip_.hipDrvLaunchKernelEx.function == nullptr) {
    return Unimplemented("this HIP runtime has no hipDrvLaunchKernelEx, which clusters need");
  }
  abi::LaunchAttribute attributes[2];
  std::memset(attributes, 0, sizeof attributes);
  attributes[0].id = abi::kAttributeClusterDimension;
  attributes[0].value.cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  attributes[1].id = abi::kAttributeCooperative;
  attributes[1].value.flag = launch.cooperative ? 1 : 0;
  const abi::LaunchConfig config = ConfigOf(launch, attributes, 2);
  return Call(hip_.hipDrvLaunchKernelEx, &config, function, arguments, nullptr);
}

}  // namespace kiln::launch
