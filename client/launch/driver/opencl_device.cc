#include "client/launch/driver/opencl_device.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "storage/base/checksum.h"

namespace kiln::launch {
namespace {

constexpr unsigned kPlatformsMax = 64;
constexpr unsigned kDevicesMax = 256;  // of a platform

template <typename Type>
void FindExtension(const OpenClCalls& calls, opencl::Handle platform, const char* name,
                   opencl::EntryPoint<Type>& entry) {
  void* function =
      calls.functions().clGetExtensionFunctionAddressForPlatform.function(platform, name);
  entry = {name, reinterpret_cast<Type*>(function)};
}

// Unified shared memory where there is some: its functions take SVM too, SVM's do not have to take
// unified shared memory.
Status FindMemoryFunctions(const OpenClCalls& calls, OpenClDevice& device) {
  const opencl::Functions& cl = calls.functions();
  LAUNCH_ASSIGN_OR_RETURN(
      const std::string extensions,
      OpenClCalls::AskText(cl.clGetDeviceInfo, device.id, opencl::kDeviceExtensions));
  if (extensions.find("cl_intel_unified_shared_memory") != std::string::npos) {
    const opencl::Handle platform = device.platform;
    FindExtension(calls, platform, "clSetKernelArgMemPointerINTEL", device.memory.set_pointer);
    FindExtension(calls, platform, "clEnqueueMemcpyINTEL", device.memory.copy);
    FindExtension(calls, platform, "clEnqueueMemFillINTEL", device.memory.fill);
    if (device.memory.set_pointer.function != nullptr && device.memory.copy.function != nullptr &&
        device.memory.fill.function != nullptr) {
      return Status();
    }
    device.memory = {};
  }
  const StatusOr<uint64_t> svm =
      OpenClCalls::Ask<uint64_t>(cl.clGetDeviceInfo, device.id, opencl::kDeviceSvmCapabilities);
  if (svm.ok() && *svm != 0) {
    device.memory = {cl.clSetKernelArgSVMPointer, cl.clEnqueueSVMMemcpy, cl.clEnqueueSVMMemFill};
  }
  return Status();
}

Status FindFacts(const OpenClCalls& calls, OpenClDevice& device) {
  const auto& info = calls.functions().clGetDeviceInfo;
  DeviceFacts& facts = device.facts;
  LAUNCH_ASSIGN_OR_RETURN(facts.name, OpenClCalls::AskText(info, device.id, opencl::kDeviceName));
  // A device before OpenCL 2.1 does not know the question.
  if (const auto il = OpenClCalls::AskText(info, device.id, opencl::kDeviceIlVersion); il.ok()) {
    facts.architecture = NewestSpirv(*il);
  }
  facts.warp_size = 1;
  LAUNCH_ASSIGN_OR_RETURN(
      const auto threads,
      OpenClCalls::Ask<size_t>(info, device.id, opencl::kDeviceMaxWorkGroupSize));
  facts.threads_max = static_cast<int64_t>(threads);
  LAUNCH_ASSIGN_OR_RETURN(const auto local,
                          OpenClCalls::Ask<uint64_t>(info, device.id, opencl::kDeviceLocalMemSize));
  facts.shared_bytes_max = static_cast<int64_t>(local);
  LAUNCH_ASSIGN_OR_RETURN(
      const auto cache,
      OpenClCalls::Ask<uint64_t>(info, device.id, opencl::kDeviceGlobalMemCacheSize));
  facts.l2_bytes = static_cast<int64_t>(cache);
  facts.grid_max.fill(UINT32_MAX);
  LAUNCH_ASSIGN_OR_RETURN(const std::string version,
                          OpenClCalls::AskText(info, device.id, opencl::kDriverVersion));
  // Any text, of which a tuning only asks whether it is the same.
  facts.driver_version = static_cast<int64_t>(Checksum64(version) >> 1);
  return Status();
}

}  // namespace

std::string NewestSpirv(std::string_view languages) {
  std::pair newest{0, 0};
  std::istringstream words{std::string(languages)};
  for (std::string word; words >> word;) {
    std::pair version{0, 0};
    if (std::sscanf(word.c_str(), "SPIR-V_%3d.%3d", &version.first, &version.second) == 2) {
      newest = std::max(newest, version);
    }
  }
  return newest.first == 0 ? "" : fmt::format("{}.{}", newest.first, newest.second);
}

StatusOr<std::vector<OpenClDevice>> ListOpenClDevices(const OpenClCalls& calls) {
  const opencl::Functions& cl = calls.functions();
  std::vector<opencl::Handle> platforms(kPlatformsMax);
  unsigned count = 0;
  LAUNCH_RETURN_IF_ERROR(
      OpenClCalls::Call(cl.clGetPlatformIDs, kPlatformsMax, platforms.data(), &count)
          .Annotate("no OpenCL platform here"));
  platforms.resize(std::min(count, kPlatformsMax));
  std::vector<OpenClDevice> devices;
  for (const opencl::Handle platform : platforms) {
    std::vector<opencl::Handle> ids(kDevicesMax);
    // A platform without a device says so with an error.
    if (cl.clGetDeviceIDs.function(platform, opencl::kDeviceTypeAll, kDevicesMax, ids.data(),
                                   &count) != opencl::kSuccess) {
      continue;
    }
    ids.resize(std::min(count, kDevicesMax));
    for (const opencl::Handle id : ids) {
      OpenClDevice& device = devices.emplace_back();
      device.platform = platform;
      device.id = id;
      device.facts.ordinal = static_cast<int>(devices.size()) - 1;
      LAUNCH_RETURN_IF_ERROR(FindFacts(calls, device));
      LAUNCH_RETURN_IF_ERROR(FindMemoryFunctions(calls, device));
    }
  }
  if (devices.empty()) return Unavailable("no OpenCL platform here has a device");
  return devices;
}

}  // namespace kiln::launch
