#include "daemon/process/allocator.h"

#include <fmt/format.h>
#include <unistd.h>

#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr char kJemalloc[] = "libjemalloc.so.2";

// A worker has one thread that compiles. Pages of two megabytes where the kernel gives them on
// request: a compile touches hundreds of megabytes once.
constexpr char kJemallocOptions[] = "narenas:1,thp:always,metadata_thp:always";

}  // namespace

std::string FindJemalloc(const std::string& beside, const MayRun& may_run) {
  for (const std::string& directory :
       {beside, std::string("/usr/local/lib"), std::string("/usr/lib/" KILN_LIBRARY_ARCHITECTURE),
        std::string("/usr/lib64"), std::string("/usr/lib")}) {
    std::string path = fmt::format("{}/{}", directory, kJemalloc);
    if (access(path.c_str(), R_OK) != 0) continue;
    // What separates the libraries of LD_PRELOAD.
    const absl::Status usable =
        path.find_first_of(" :") == std::string::npos
            ? may_run(directory, path)
            : FailedPrecondition("the loader takes no path with a blank or a colon");
    if (usable.ok()) return path;
    LogWarning("a malloc for workers is passed over", {{"path", path}, {"error", Message(usable)}});
  }
  return "";
}

std::vector<std::string> AllocatorEnvironment(const std::string& library) {
  if (library.empty()) return {};
  return {"LD_PRELOAD=" + library, fmt::format("MALLOC_CONF={}", kJemallocOptions),
          kProgramAllocation};
}

}  // namespace kiln
