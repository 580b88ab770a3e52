#include "daemon/toolchain/native_toolchain.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string_view>

#include "daemon/toolchain/toolchain_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Relative to what was installed: a CUDA toolkit, …
constexpr std::string_view kToolkitPtxas[] = {"bin/ptxas"};
// … or a Python environment, relative to its site-packages: Triton's, PyTorch's, and those of
// NVIDIA's wheels for CUDA 12 and 13.
constexpr std::string_view kPackagedPtxas[] = {
    "triton/backends/nvidia/bin/ptxas", "triton/backends/nvidia/bin/ptxas-blackwell",
    "torch/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas", "nvidia/cu13/bin/ptxas"};

std::string WhyNotUsable(const std::string& path) {
  struct stat info {};
  if (::access(path.c_str(), X_OK) != 0) return "it is not executable (chmod +x)";
  for (const std::string& each : {path, fs::path(path).parent_path().string()}) {
    if (::stat(each.c_str(), &info) != 0) return "it cannot be read";
    if ((info.st_mode & S_IWOTH) != 0) {
      return "everyone may write to it, or to its directory, and it is run; take that right away "
             "(chmod o-w)";
    }
  }
  return "";
}

class NativeFindings {
 public:
  // Whether `directory` holds any.
  bool AddFrom(const std::string& directory) {
    bool found = false;
    for (const std::string_view name : kToolkitPtxas) {
      found = Add(fmt::format("{}/{}", directory, name)) || found;
    }
    for (const std::string& packages : SitePackages(directory)) {
      for (const std::string_view name : kPackagedPtxas) {
        found = Add(fmt::format("{}/{}", packages, name)) || found;
      }
    }
    return found;
  }

  std::vector<NativeToolchain> Take() { return std::move(found_); }

 private:
  bool Add(const std::string& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return false;
    const std::string real = fs::canonical(path, error).string();
    if (!error && seen_.insert(real).second) found_.push_back({"ptxas", real, WhyNotUsable(real)});
    return true;
  }

  std::vector<NativeToolchain> found_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<NativeToolchain> FindNativeToolchains(const std::vector<std::string>& directories) {
  NativeFindings findings;
  for (const std::string& directory : directories) {
    if (findings.AddFrom(directory)) continue;
    for (const std::string& inner : SubdirectoriesToSearch(directory)) findings.AddFrom(inner);
  }
  return findings.Take();
}

}  // namespace kiln
