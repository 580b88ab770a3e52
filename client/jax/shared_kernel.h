// The kernels that calls launch, each once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include "client/launch/kiln_launch.h"
#include "xla/ffi/api/ffi.h"

namespace kiln::jax {

namespace ffi = ::xla::ffi;

// The last failure of the launch library on this thread; XLA's codes are the same numbers. Errors
// of this file do not say what was launched.
ffi::Error LaunchError(kiln_launch_code code);

// One binary with its metadata, on any number of devices; shared by all calls with the same.
// Thread- safe.
class SharedKernel {
 public:
  // A process has one for each binary with its metadata, as long as somebody has it.
  static ffi::ErrorOr<std::shared_ptr<SharedKernel>> Of(kiln_launch_runtime* runtime,
                                                        std::string_view binary,
                                                        std::string_view metadata);
  ~SharedKernel();
  SharedKernel(const SharedKernel&) = delete;
  SharedKernel& operator=(const SharedKernel&) = delete;

  // The kernel on a device: opened and loaded when it is first asked for, which waits for what runs
  // there.
  ffi::ErrorOr<kiln_launch_kernel*> On(int32_t device) {
    kiln_launch_kernel* kernel = nullptr;
    if (device >= 0 && device < kDevicesMax) {
      kernel = kernels_[static_cast<size_t>(device)].load(std::memory_order_acquire);
    }
    if (kernel == nullptr) return Open(device);
    return kernel;
  }
  // Loads it on the device of the thread's current context, if there is one.
  ffi::Error Prepare();

  const kiln_launch_artifact_info& info() const { return info_; }
  // The bytes of parameter number `index`, and its type as the compiler spells it.
  kiln_launch_parameter Parameter(uint32_t index) const;

 private:
  static constexpr int32_t kDevicesMax = 64;

  SharedKernel(kiln_launch_runtime* runtime, kiln_launch_artifact* artifact);
  ffi::ErrorOr<kiln_launch_kernel*> Open(int32_t device);

  kiln_launch_runtime* const runtime_;
  kiln_launch_artifact* const artifact_;
  kiln_launch_artifact_info info_{};
  std::mutex opening_;
  std::array<std::atomic<kiln_launch_kernel*>, kDevicesMax> kernels_{};
};

}  // namespace kiln::jax
