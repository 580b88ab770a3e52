#include "client/launch/driver/opencl_calls.h"

namespace kiln::launch {
namespace {

const char* NameOf(opencl::Result result) {
  switch (result) {
#define KILN_OPENCL_NAME(name, number) \
  case number:                         \
    return #name;
    KILN_OPENCL_ERRORS(KILN_OPENCL_NAME)
#undef KILN_OPENCL_NAME
    default:
      return "unknown error";
  }
}

Code CodeOf(std::string_view name) {
  if (name == "CL_MEM_OBJECT_ALLOCATION_FAILURE" || name == "CL_OUT_OF_RESOURCES" ||
      name == "CL_OUT_OF_HOST_MEMORY") {
    return Code::kResourceExhausted;
  }
  if (name == "CL_DEVICE_NOT_FOUND" || name == "CL_DEVICE_NOT_AVAILABLE" ||
      name == "CL_PLATFORM_NOT_FOUND_KHR") {
    return Code::kUnavailable;
  }
  if (name == "CL_INVALID_CONTEXT" || name == "CL_BUILD_PROGRAM_FAILURE" ||
      name == "CL_PROFILING_INFO_NOT_AVAILABLE") {
    return Code::kFailedPrecondition;
  }
  if (name == "CL_INVALID_OPERATION") return Code::kUnimplemented;
  return name.starts_with("CL_INVALID_") ? Code::kInvalidArgument : Code::kInternal;
}

}  // namespace

StatusOr<OpenClCalls> OpenClCalls::Open(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(SharedLibrary library, SharedLibrary::Open({path}));
  OpenClCalls calls;
#define KILN_REQUIRE(name, ...) library.Require(calls.functions_.name, #name);
  KILN_OPENCL_FUNCTIONS(KILN_REQUIRE)
#undef KILN_REQUIRE
  if (library.missing() != nullptr) {
    return Unavailable("{} has no {}: a loader for OpenCL 2.1 or later is needed", library.path(),
                       library.missing());
  }
  calls.library_id_ = library.id();
  return calls;
}

Status OpenClCalls::Failure(opencl::Result result, std::string_view function) {
  const char* name = NameOf(result);
  return Status(CodeOf(name), fmt::format("{}: {} ({})", function, name, result), result);
}

}  // namespace kiln::launch
