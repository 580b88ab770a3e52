#include "client/launch/driver/opencl_program.h"

#include <cstring>

#include "client/launch/artifact/parameter_type.h"

namespace kiln::launch {
namespace {

constexpr size_t kLogBytesMax = 4000;

}  // namespace

StatusOr<std::unique_ptr<OpenClProgram>> OpenClProgram::Build(const OpenClCalls& calls,
                                                              const OpenClDevice& device,
                                                              Context context,
                                                              std::string_view module,
                                                              const KernelMetadata& metadata) {
  if (device.memory.set_pointer.function == nullptr) {
    return Unimplemented(
        "{} has neither unified shared memory nor SVM, so its kernels take no addresses",
        device.facts.name);
  }
  std::unique_ptr<OpenClProgram> program(new OpenClProgram(calls, device, metadata.name));
  LAUNCH_RETURN_IF_ERROR(program->FindParameters(metadata));
  LAUNCH_RETURN_IF_ERROR(program->Compile(context, module));
  LAUNCH_ASSIGN_OR_RETURN(const opencl::Handle kernel, program->TakeKernel());
  program->GiveBack(kernel);
  return program;
}

OpenClProgram::~OpenClProgram() {
  // Launches under way keep what they need.
  for (const opencl::Handle kernel : idle_) cl_.clReleaseKernel.function(kernel);
  if (program_ != nullptr) cl_.clReleaseProgram.function(program_);
}

Status OpenClProgram::FindParameters(const KernelMetadata& metadata) {
  for (const launch::Parameter& parameter : metadata.parameters) {
    Parameter& known = parameters_.emplace_back();
    if (IsPointer(parameter.type)) {
      known.form =
          parameter.type.starts_with("*local ") ? Parameter::kLocalBytes : Parameter::kPointer;
      continue;
    }
    known.bytes = BytesOfType(parameter.type);
    if (known.bytes == 0) {
      return Unimplemented("parameter {} ({}: {}) has a type that this library cannot pass",
                           parameters_.size() - 1, parameter.name, parameter.type);
    }
  }
  for (int64_t i = 0; i < metadata.hidden_pointers; ++i) {
    parameters_.push_back({Parameter::kPointer, 0});
  }
  return Status();
}

Status OpenClProgram::Compile(Context context, std::string_view module) {
  LAUNCH_ASSIGN_OR_RETURN(program_, OpenClCalls::Make(cl_.clCreateProgramWithIL, context,
                                                      module.data(), module.size()));
  const Status built =
      OpenClCalls::Call(cl_.clBuildProgram, program_, 1u, &device_.id, nullptr, nullptr, nullptr);
  if (built.ok()) return built;
  const StatusOr<std::string> log = OpenClCalls::AskText(cl_.clGetProgramBuildInfo, program_,
                                                         device_.id, opencl::kProgramBuildLog);
  if (!log.ok() || log->empty()) return built;
  return Status(built.code(), fmt::format("{}: {}", built.message(), log->substr(0, kLogBytesMax)),
                built.driver_result());
}

StatusOr<opencl::Handle> OpenClProgram::TakeKernel() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      const opencl::Handle kernel = idle_.back();
      idle_.pop_back();
      return kernel;
    }
  }
  return OpenClCalls::Make(cl_.clCreateKernel, program_, name_.c_str()).Annotate(name_);
}

void OpenClProgram::GiveBack(opencl::Handle kernel) {
  const MutexLock lock(mutex_);
  idle_.push_back(kernel);
}

StatusOr<FunctionFacts> OpenClProgram::Describe() {
  LAUNCH_ASSIGN_OR_RETURN(const opencl::Handle kernel, TakeKernel());
  const auto ask = [&]<typename Value>(Value, unsigned property) {
    return OpenClCalls::Ask<Value>(cl_.clGetKernelWorkGroupInfo, kernel, device_.id, property);
  };
  const auto threads = ask(size_t{}, opencl::kKernelWorkGroupSize);
  const auto shared = ask(uint64_t{}, opencl::kKernelLocalMemSize);
  const auto local = ask(uint64_t{}, opencl::kKernelPrivateMemSize);
  const auto count =
      OpenClCalls::Ask<unsigned>(cl_.clGetKernelInfo, kernel, opencl::kKernelNumArgs);
  GiveBack(kernel);
  for (const Status& status : {threads.status(), shared.status(), local.status(), count.status()}) {
    LAUNCH_RETURN_IF_ERROR(status);
  }
  FunctionFacts facts;
  facts.threads_max = static_cast<int>(*threads);
  facts.static_shared_bytes = static_cast<int>(*shared);
  facts.local_bytes = static_cast<int>(*local);
  facts.parameter_bytes.emplace(*count, 0);
  return facts;
}

Status OpenClProgram::Launch(const DriverLaunch& launch, void** arguments) {
  LAUNCH_ASSIGN_OR_RETURN(const opencl::Handle kernel, TakeKernel());
  Status status;
  for (size_t i = 0; i < parameters_.size() && status.ok(); ++i) {
    status = SetArgument(kernel, i, arguments[i]);
  }
  if (status.ok()) {
    size_t local[3];
    size_t global[3];
    for (size_t axis = 0; axis < 3; ++axis) {
      local[axis] = launch.block[axis];
      global[axis] = local[axis] * launch.grid[axis];
    }
    status = OpenClCalls::Call(cl_.clEnqueueNDRangeKernel, launch.stream, kernel, 3u, nullptr,
                               global, local, 0u, nullptr, nullptr);
  }
  GiveBack(kernel);
  return status;
}

Status OpenClProgram::SetArgument(opencl::Handle kernel, size_t index, const void* value) const {
  const auto place = static_cast<unsigned>(index);
  const Parameter& parameter = parameters_[index];
  Status status;
  if (parameter.form == Parameter::kValue) {
    status = OpenClCalls::Call(cl_.clSetKernelArg, kernel, place, parameter.bytes, value);
  } else {
    Address address = 0;
    std::memcpy(&address, value, sizeof address);
    status = parameter.form == Parameter::kPointer
                 ? OpenClCalls::Call(device_.memory.set_pointer, kernel, place,
                                     reinterpret_cast<const void*>(address))
                 : OpenClCalls::Call(cl_.clSetKernelArg, kernel, place, size_t{address}, nullptr);
  }
  return status.ok() ? status : status.Annotate(fmt::format("argument {}", index));
}

}  // namespace kiln::launch
