#include "client/jax/shared_kernel.h"

#include <map>
#include <string>
#include <utility>

namespace kiln::jax {
namespace {

// By the binary's digest and the metadata.
using Identity = std::pair<std::string, std::string>;

struct Known {
  std::mutex mutex;
  std::map<Identity, std::weak_ptr<SharedKernel>> kernels;
};
// Never destroyed: XLA may end calls after this library's own end.
Known& known() {
  static auto& known = *new Known;
  return known;
}

}  // namespace

ffi::Error LaunchError(kiln_launch_code code) {
  return ffi::Error(static_cast<ffi::ErrorCode>(code), kiln_launch_error());
}

ffi::ErrorOr<std::shared_ptr<SharedKernel>> SharedKernel::Of(kiln_launch_runtime* runtime,
                                                             std::string_view binary,
                                                             std::string_view metadata) {
  kiln_launch_bytes bytes{};
  bytes.size = sizeof bytes;
  bytes.json = metadata.data();
  bytes.json_bytes = metadata.size();
  bytes.binary = binary.data();
  bytes.binary_bytes = binary.size();
  kiln_launch_artifact* artifact = nullptr;
  if (const auto code = kiln_launch_artifact_open_bytes(&bytes, &artifact); code != 0) {
    return ffi::Unexpected(LaunchError(code));
  }
  std::shared_ptr<SharedKernel> made(new SharedKernel(runtime, artifact));
  Identity identity(std::string(reinterpret_cast<const char*>(made->info_.digest), 32), metadata);
  const std::lock_guard lock(known().mutex);
  std::weak_ptr<SharedKernel>& slot = known().kernels[std::move(identity)];
  if (std::shared_ptr<SharedKernel> other = slot.lock()) return other;
  slot = made;
  std::erase_if(known().kernels, [](const auto& kernel) { return kernel.second.expired(); });
  return made;
}

SharedKernel::SharedKernel(kiln_launch_runtime* runtime, kiln_launch_artifact* artifact)
    : runtime_(runtime), artifact_(artifact) {
  info_.size = sizeof info_;
  kiln_launch_artifact_get_info(artifact_, &info_);
}

SharedKernel::~SharedKernel() {
  for (const auto& kernel : kernels_) kiln_launch_kernel_close(kernel.load());
  kiln_launch_artifact_close(artifact_);
}

ffi::ErrorOr<kiln_launch_kernel*> SharedKernel::Open(int32_t device) {
  if (device < 0 || device >= kDevicesMax) {
    return ffi::Unexpected(
        ffi::Error::InvalidArgument("there is no device " + std::to_string(device)));
  }
  auto& slot = kernels_[static_cast<size_t>(device)];
  const std::lock_guard lock(opening_);
  if (kiln_launch_kernel* kernel = slot.load(); kernel != nullptr) return kernel;
  kiln_launch_kernel* kernel = nullptr;
  auto code = kiln_launch_kernel_open(runtime_, artifact_, device, &kernel);
  if (code == 0) code = kiln_launch_prepare(kernel);
  if (code != 0) {
    ffi::Error error = LaunchError(code);
    kiln_launch_kernel_close(kernel);
    return ffi::Unexpected(std::move(error));
  }
  slot.store(kernel, std::memory_order_release);
  return kernel;
}

ffi::Error SharedKernel::Prepare() {
  kiln_launch_device device{};
  device.size = sizeof device;
  if (kiln_launch_get_device(runtime_, -1, &device) != 0) return ffi::Error::Success();
  const ffi::ErrorOr<kiln_launch_kernel*> kernel = On(device.ordinal);
  return kernel.has_error() ? kernel.error() : ffi::Error::Success();
}

kiln_launch_parameter SharedKernel::Parameter(uint32_t index) const {
  kiln_launch_parameter parameter{};
  parameter.size = sizeof parameter;
  kiln_launch_artifact_get_parameter(artifact_, index, &parameter);
  return parameter;
}

}  // namespace kiln::jax
