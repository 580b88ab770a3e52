// The functions of OpenCL's loader, with errors as statuses.
#pragma once

#include <string>
#include <string_view>

#include "client/launch/artifact/status.h"
#include "client/launch/driver/opencl_abi.h"
#include "client/launch/driver/shared_library.h"

namespace kiln::launch {

// Immutable; thread-safe.
class OpenClCalls {
 public:
  // UNAVAILABLE: no such library, or one before OpenCL 2.1.
  static StatusOr<OpenClCalls> Open(const std::string& path);

  const opencl::Functions& functions() const { return functions_; }
  const void* library_id() const { return library_id_; }

  // "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)".
  static Status Failure(opencl::Result result, std::string_view function);

  template <typename Type, typename... Arguments>
  static Status Call(const opencl::EntryPoint<Type>& entry, Arguments... arguments) {
    const opencl::Result result = entry.function(arguments...);
    return result == opencl::kSuccess ? Status() : Failure(result, entry.name);
  }
  // The object that a function makes, which has its result as the last argument.
  template <typename Type, typename... Arguments>
  static StatusOr<opencl::Handle> Make(const opencl::EntryPoint<Type>& entry,
                                       Arguments... arguments) {
    opencl::Result result = opencl::kSuccess;
    const opencl::Handle made = entry.function(arguments..., &result);
    if (result == opencl::kSuccess) return made;
    return Failure(result, entry.name);
  }
  // What a function for queries says; the arguments name the object and the property.
  template <typename Value, typename Type, typename... Arguments>
  static StatusOr<Value> Ask(const opencl::EntryPoint<Type>& entry, Arguments... arguments) {
    Value value{};
    LAUNCH_RETURN_IF_ERROR(Call(entry, arguments..., sizeof value, &value, nullptr));
    return value;
  }
  template <typename Type, typename... Arguments>
  static StatusOr<std::string> AskText(const opencl::EntryPoint<Type>& entry,
                                       Arguments... arguments) {
    size_t bytes = 0;
    LAUNCH_RETURN_IF_ERROR(Call(entry, arguments..., size_t{0}, nullptr, &bytes));
    std::string text(bytes, '\0');
    LAUNCH_RETURN_IF_ERROR(Call(entry, arguments..., bytes, text.data(), nullptr));
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }

 private:
  OpenClCalls() = default;

  opencl::Functions functions_;
  const void* library_id_ = nullptr;
};

}  // namespace kiln::launch
