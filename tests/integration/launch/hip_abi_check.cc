// Only compiled: whether what client/launch/driver/abi.h and hip_abi.h say of the HIP runtime is
// what AMD's own headers say, which Triton's packages carry.
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "client/launch/driver/hip_abi.h"

namespace kiln::launch::hip {
namespace {

// Passed in the same way: enumerations as int, all pointers as void* or as 64 bits.
template <typename Ours, typename Theirs>
constexpr bool kIsPassedAlike = sizeof(Ours) == sizeof(Theirs) &&
                                std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;

template <typename Ours, typename... OurArguments, typename Theirs, typename... TheirArguments>
constexpr bool IsCalledAlike(Ours (*)(OurArguments...), Theirs (*)(TheirArguments...)) {
  if constexpr (sizeof...(OurArguments) != sizeof...(TheirArguments)) {
    return false;
  } else {
    return kIsPassedAlike<Ours, Theirs> && (kIsPassedAlike<OurArguments, TheirArguments> && ...);
  }
}

// One has overloads in C++ of which only the right one can be meant.
static_assert(
    IsCalledAlike(decltype(abi::Functions::allocate)().function,
                  static_cast<hipError_t (*)(void**, size_t, hipStream_t)>(&::hipMallocAsync)));

#define CHECK_FUNCTION(name, ...)                                   \
  static_assert(                                                    \
      [](auto ours) {                                               \
        if constexpr (requires { IsCalledAlike(ours, &::name); }) { \
          return IsCalledAlike(ours, &::name);                      \
        } else {                                                    \
          return std::string_view(#name) == "hipMallocAsync";       \
        }                                                           \
      }(std::add_pointer_t<__VA_ARGS__>{}),                         \
      #name);
#define CHECK_SHARED(member, cuda, hip, ...) CHECK_FUNCTION(hip, __VA_ARGS__)
KILN_HIP_FUNCTIONS(CHECK_FUNCTION, CHECK_FUNCTION)
KILN_DRIVER_FUNCTIONS(CHECK_SHARED, CHECK_SHARED)

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours)
SAME(kSuccess, hipSuccess);
SAME(kInvalidValue, hipErrorInvalidValue);
SAME(kOutOfMemory, hipErrorOutOfMemory);
SAME(kDeinitialized, hipErrorDeinitialized);
SAME(kInvalidConfiguration, hipErrorInvalidConfiguration);
SAME(kNoDevice, hipErrorNoDevice);
SAME(kInvalidDevice, hipErrorInvalidDevice);
SAME(kInvalidImage, hipErrorInvalidImage);
SAME(kInvalidContext, hipErrorInvalidContext);
SAME(kNoBinaryForGpu, hipErrorNoBinaryForGpu);
SAME(kNotFound, hipErrorNotFound);
SAME(kNotReady, hipErrorNotReady);
SAME(kLaunchOutOfResources, hipErrorLaunchOutOfResources);
SAME(kContextIsDestroyed, hipErrorContextIsDestroyed);
SAME(kCooperativeLaunchTooLarge, hipErrorCooperativeLaunchTooLarge);
SAME(kNotSupported, hipErrorNotSupported);
SAME(kStreamCaptureImplicit, hipErrorStreamCaptureImplicit);

SAME(kL2CacheSize, hipDeviceAttributeL2CacheSize);
SAME(kMaxGridDimX, hipDeviceAttributeMaxGridDimX);
SAME(kMaxGridDimX + 1, hipDeviceAttributeMaxGridDimY);
SAME(kMaxGridDimX + 2, hipDeviceAttributeMaxGridDimZ);
SAME(kMaxThreadsPerBlock, hipDeviceAttributeMaxThreadsPerBlock);
SAME(kMaxSharedMemoryPerBlock, hipDeviceAttributeMaxSharedMemoryPerBlock);
SAME(kWarpSize, hipDeviceAttributeWarpSize);
SAME(kFunctionMaxThreadsPerBlock, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(kFunctionSharedSizeBytes, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(kFunctionLocalSizeBytes, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(kFunctionNumRegs, HIP_FUNC_ATTRIBUTE_NUM_REGS);
SAME(kPointerDeviceOrdinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(kAttributeCooperative, hipLaunchAttributeCooperative);
SAME(kCaptureStatusActive, hipStreamCaptureStatusActive);
SAME(kCaptureModeRelaxed, hipStreamCaptureModeRelaxed);
SAME(kUserObjectNoDestructorSync, hipUserObjectNoDestructorSync);
SAME(kGraphUserObjectMove, hipGraphUserObjectMove);

SAME(offsetof(hipDeviceProp_t, gcnArchName), kArchitectureNameOffset);
SAME(sizeof(hipDeviceProp_t::gcnArchName), kArchitectureNameBytes);
static_assert(sizeof(hipDeviceProp_t) < sizeof(DeviceProperties));
SAME(sizeof(HIP_LAUNCH_CONFIG), sizeof(LaunchConfig));
SAME(offsetof(HIP_LAUNCH_CONFIG, sharedMemBytes), offsetof(LaunchConfig, shared_bytes));
SAME(offsetof(HIP_LAUNCH_CONFIG, hStream), offsetof(LaunchConfig, stream));
SAME(offsetof(HIP_LAUNCH_CONFIG, attrs), offsetof(LaunchConfig, attributes));
SAME(offsetof(HIP_LAUNCH_CONFIG, numAttrs), offsetof(LaunchConfig, attribute_count));
SAME(sizeof(hipLaunchAttribute), sizeof(LaunchAttribute));
SAME(offsetof(hipLaunchAttribute, val), offsetof(LaunchAttribute, value));

}  // namespace
}  // namespace kiln::launch::hip
