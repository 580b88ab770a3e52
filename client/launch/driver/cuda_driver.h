// The CUDA driver.
#pragma once

#include <memory>
#include <string>

#include "client/launch/driver/cuda_abi.h"
#include "client/launch/driver/cuda_like_driver.h"

namespace kiln::launch {

// Opens libcuda.so.1, or another library with its functions, and initialises it. Needs a driver of
// CUDA 12.0 or later. UNAVAILABLE: no driver, no device, or too old.
class CudaDriver final : public CudaLikeDriver {
 public:
  static StatusOr<std::unique_ptr<Driver>> Open(const std::string& path = "libcuda.so.1");

  StatusOr<Context> CurrentContext() override { return Get<Context>(cu_.cuCtxGetCurrent); }
  StatusOr<Context> PrimaryContext(int device) override;
  Status PushContext(Context context) override { return Call(cu_.cuCtxPushCurrent_v2, context); }
  Status PopContext() override { return Get<Context>(cu_.cuCtxPopCurrent_v2).status(); }
  StatusOr<uint64_t> ContextId(Context context) override {
    uint64_t id = 0;
    LAUNCH_RETURN_IF_ERROR(Call(cu_.cuCtxGetId, context, &id));
    return id;
  }

  StatusOr<FunctionFacts> Describe(Function function) override;
  StatusOr<uint32_t> ResidentBlocks(Function function, uint32_t threads,
                                    uint32_t dynamic_shared_bytes) override;
  Status AllowSharedBytes(Function function, int bytes) override;
  Status PreferSharedMemory(Function function) override {
    return Call(cu_.cuFuncSetCacheConfig, function, cuda::kCachePreferShared);
  }
  Status AllowLargeClusters(Function function) override;
  Status Launch(Function function, const DriverLaunch& launch, void** arguments) override;
  int LaunchUncaptured(Function function, const DriverLaunch& launch, void** arguments) override {
    return IsKnownNotToCapture(launch.stream) ? LaunchPlain(function, launch, arguments)
                                              : kNotTried;
  }
  Status LaunchFailure(int result) const override {
    return Failure(result, cu_.cuLaunchKernelEx.name);
  }
  Status EncodeTensorMap(const TensorMapRequest& request, void* map) override;

 private:
  explicit CudaDriver(const SharedLibrary& library);
  Status CheckDevice(int ordinal) const override;
  StatusOr<std::string> ArchitectureOf(int device) const override;
  Status LoadModule(std::string_view image, Module& module) override;
  Status FindFunction(Module module, const std::string& name, Function& function) override;
  // Launch without its rarer attributes.
  abi::Result LaunchPlain(Function function, const DriverLaunch& launch, void** arguments);
  ErrorWords WordsFor(abi::Result result) const override;

  cuda::Functions cu_;
};

}  // namespace kiln::launch
