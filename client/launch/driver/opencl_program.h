// One kernel of a SPIR-V module, built for one device.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/metadata.h"
#include "client/launch/driver/driver.h"
#include "client/launch/driver/opencl_device.h"
#include "storage/base/mutex.h"

namespace kiln::launch {

// A cl_kernel keeps its arguments, and only one thread at a time may set them. So each launch takes
// a cl_kernel for itself, and there are as many as threads have launched at the same time.
// Thread-safe.
class OpenClProgram {
 public:
  // Compiles the module. `calls` and `device` must outlive the program. FAILED_PRECONDITION: the
  // device's compiler refuses the module; the message has its log. INVALID_ARGUMENT: no such
  // kernel. UNIMPLEMENTED: a parameter of a type that cannot be passed, such as an image.
  static StatusOr<std::unique_ptr<OpenClProgram>> Build(const OpenClCalls& calls,
                                                        const OpenClDevice& device, Context context,
                                                        std::string_view module,
                                                        const KernelMetadata& metadata);
  ~OpenClProgram();
  OpenClProgram(const OpenClProgram&) = delete;
  OpenClProgram& operator=(const OpenClProgram&) = delete;

  StatusOr<FunctionFacts> Describe();
  Status Launch(const DriverLaunch& launch, void** arguments);

 private:
  // A parameter. `bytes` is 0 for the others.
  struct Parameter {
    enum { kValue, kPointer, kLocalBytes } form = kValue;
    size_t bytes = 0;
  };

  OpenClProgram(const OpenClCalls& calls, const OpenClDevice& device, std::string name)
      : cl_(calls.functions()), device_(device), name_(std::move(name)) {}
  Status FindParameters(const KernelMetadata& metadata);
  Status Compile(Context context, std::string_view module);
  StatusOr<opencl::Handle> TakeKernel();
  void GiveBack(opencl::Handle kernel);
  Status SetArgument(opencl::Handle kernel, size_t index, const void* value) const;

  const opencl::Functions& cl_;
  const OpenClDevice& device_;
  const std::string name_;
  std::vector<Parameter> parameters_;
  opencl::Handle program_ = nullptr;
  Mutex mutex_;
  std::vector<opencl::Handle> idle_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln::launch
