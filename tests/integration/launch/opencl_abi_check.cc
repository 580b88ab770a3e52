// Only compiled: whether what client/launch/driver/opencl_abi.h says of OpenCL is what Khronos'
// headers say.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <iterator>
#include <type_traits>

#include "client/launch/driver/opencl_abi.h"

namespace kiln::launch::opencl {
namespace {

// Passed in the same way: all pointers as void*.
template <typename Ours, typename Theirs>
constexpr bool kIsPassedAlike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <typename Ours, typename... OurArguments, typename Theirs, typename... TheirArguments>
constexpr bool IsCalledAlike(Ours (*)(OurArguments...), Theirs (*)(TheirArguments...)) {
  if constexpr (sizeof...(OurArguments) != sizeof...(TheirArguments)) {
    return false;
  } else {
    return kIsPassedAlike<Ours, Theirs> && (kIsPassedAlike<OurArguments, TheirArguments> && ...);
  }
}

#define CHECK_FUNCTION(name, ...) \
  static_assert(IsCalledAlike(std::add_pointer_t<__VA_ARGS__>{}, &::name), #name);
KILN_OPENCL_FUNCTIONS(CHECK_FUNCTION)
static_assert(IsCalledAlike(decltype(MemoryFunctions::set_pointer)().function,
                            clSetKernelArgMemPointerINTEL_fn()));
static_assert(IsCalledAlike(decltype(MemoryFunctions::copy)().function, clEnqueueMemcpyINTEL_fn()));
static_assert(IsCalledAlike(decltype(MemoryFunctions::fill)().function,
                            clEnqueueMemFillINTEL_fn()));

// A list of each, since their names are macros.
constexpr int kTheirs[] = {
#define THEIRS(name, number) name,
    KILN_OPENCL_ERRORS(THEIRS)
#undef THEIRS
};
constexpr int kOurs[] = {
#define OURS(name, number) number,
    KILN_OPENCL_ERRORS(OURS)
#undef OURS
};
constexpr bool AreSame() {
  for (size_t i = 0; i < std::size(kOurs); ++i) {
    if (kOurs[i] != kTheirs[i]) return false;
  }
  return true;
}
static_assert(AreSame());

#define SAME(ours, theirs) \
  static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs), #ours)
SAME(kSuccess, CL_SUCCESS);
SAME(kDeviceTypeAll, CL_DEVICE_TYPE_ALL);
SAME(kDeviceMaxWorkGroupSize, CL_DEVICE_MAX_WORK_GROUP_SIZE);
SAME(kDeviceGlobalMemCacheSize, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
SAME(kDeviceLocalMemSize, CL_DEVICE_LOCAL_MEM_SIZE);
SAME(kDeviceName, CL_DEVICE_NAME);
SAME(kDriverVersion, CL_DRIVER_VERSION);
SAME(kDeviceExtensions, CL_DEVICE_EXTENSIONS);
SAME(kDeviceSvmCapabilities, CL_DEVICE_SVM_CAPABILITIES);
SAME(kDeviceIlVersion, CL_DEVICE_IL_VERSION);
SAME(kContextDevices, CL_CONTEXT_DEVICES);
SAME(kContextPlatform, CL_CONTEXT_PLATFORM);
SAME(kProgramBuildLog, CL_PROGRAM_BUILD_LOG);
SAME(kKernelNumArgs, CL_KERNEL_NUM_ARGS);
SAME(kEventCommandExecutionStatus, CL_EVENT_COMMAND_EXECUTION_STATUS);
SAME(kProfilingCommandEnd, CL_PROFILING_COMMAND_END);
SAME(kMemReadWrite, CL_MEM_READ_WRITE);
SAME(kComplete, CL_COMPLETE);
SAME(kKernelWorkGroupSize, CL_KERNEL_WORK_GROUP_SIZE);
SAME(kKernelLocalMemSize, CL_KERNEL_LOCAL_MEM_SIZE);
SAME(kKernelPrivateMemSize, CL_KERNEL_PRIVATE_MEM_SIZE);

}  // namespace
}  // namespace kiln::launch::opencl
