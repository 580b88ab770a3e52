// The HIP runtime, for AMD GPUs.
#pragma once

#include <memory>
#include <string>

#include "client/launch/driver/cuda_like_driver.h"
#include "client/launch/driver/hip_abi.h"

namespace kiln::launch {

// Opens libamdhip64.so, under the names it has, or another library with its functions; where the
// process has one loaded, that one. Needs ROCm 6.0 or later. UNAVAILABLE: none, no device, or too
// old.
//
// HIP has no contexts: a device stands for its context. A module belongs to the device that was
// current when it was loaded.
class HipDriver final : public CudaLikeDriver {
 public:
  // Empty path: the default names.
  static StatusOr<std::unique_ptr<Driver>> Open(const std::string& path = "");

  StatusOr<Context> CurrentContext() override;
  StatusOr<Context> PrimaryContext(int device) override;
  Status PushContext(Context context) override;
  Status PopContext() override;
  StatusOr<uint64_t> ContextId(Context context) override {
    return uint64_t{reinterpret_cast<uintptr_t>(context)};
  }

  // Not necessary: a block may use all local memory of the device. hipFuncSetAttribute does not
  // take functions of modules.
  Status AllowSharedBytes(Function, int) override { return Status(); }
  Status PreferSharedMemory(Function) override { return Status(); }
  Status AllowLargeClusters(Function) override { return Status(); }
  Status Launch(Function function, const DriverLaunch& launch, void** arguments) override;
  int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) override {
    return IsKnownNotToCapture(launch.stream) ? LaunchPlain(function, launch, arguments)
                                              : kNotTried;
  }
  Status LaunchFailure(int result) const override {
    return Failure(result, hip_.hipModuleLaunchKernel.name);
  }
  Status EncodeTensorMap(const TensorMapRequest&, void*) override {
    return Unimplemented("AMD GPUs have no tensor maps, and this library no descriptors of theirs");
  }

 private:
  explicit HipDriver(const SharedLibrary& library);
  Status CheckDevice(int ordinal) const override;
  StatusOr<std::string> ArchitectureOf(int device) const override;
  Status LoadModule(std::string_view image, Module& module) override {
    return Call(hip_.hipModuleLoadData, &module, image.data());
  }
  Status FindFunction(Module module, const std::string& name, Function& function) override {
    return Call(hip_.hipModuleGetFunction, &function, module, name.c_str());
  }
  // Launch without its rarer attributes.
  abi::Result LaunchPlain(Function function, const DriverLaunch& launch, void** arguments);
  ErrorWords WordsFor(abi::Result result) const override {
    return {hip_.hipGetErrorName.function(result), hip_.hipGetErrorString.function(result)};
  }
  void ForgetError() const override { static_cast<void>(hip_.hipGetLastError.function()); }
  Status LaunchClusters(Function function, const DriverLaunch& launch, void** arguments);

  hip::Functions hip_;
};

}  // namespace kiln::launch
