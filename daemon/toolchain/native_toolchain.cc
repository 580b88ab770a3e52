#include "daemon/toolchain/native_toolchain.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <string_view>

#include "daemon/toolchain/toolchain_directory.h"
#include "storage/base/status.h"

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

// Where NVRTC lies, and beside it, the headers that come with it: of a toolkit, …
struct NvrtcPlace {
  std::string_view libraries;
  std::vector<std::string_view> includes;
};
const NvrtcPlace& ToolkitNvrtc() {
  static const auto* const place = new NvrtcPlace{"lib64", {"include", "include/cccl"}};
  return *place;
}
// … and of NVIDIA's wheels for CUDA 12 and 13.
const std::vector<NvrtcPlace>& PackagedNvrtc() {
  static const auto* const places = new std::vector<NvrtcPlace>{
      {"nvidia/cuda_nvrtc/lib",
       {"nvidia/cuda_runtime/include", "nvidia/cuda_cccl/include", "nvidia/cuda_nvcc/include"}},
      {"nvidia/cu13/lib", {"nvidia/cu13/include", "nvidia/cu13/include/cccl"}}};
  return *places;
}

// The files of `directory` called `stem` and a version behind it: "libnvrtc.so.", and then
// "libnvrtc.so.12", sorted. Not libnvrtc.so itself, which is a link for those who build with it.
absl::StatusOr<std::vector<std::string>> Versioned(const std::string& directory,
                                                   std::string_view stem) {
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.rfind(stem, 0) != 0 || name.size() == stem.size()) continue;
    if (name.find_first_not_of("0123456789.", stem.size()) == std::string::npos) {
      found.push_back(fmt::format("{}/{}", directory, name));
    }
  }
  return found;
}

class NativeFindings {
 public:
  explicit NativeFindings(FileTrust trust) : trust_(std::move(trust)) {}

  // The two below: whether `directory`, which is `searched` or in it, holds any.
  bool AddCompilers(const std::string& directory, const std::string& searched) {
    installation_ = directory;
    searched_ = searched;
    bool found = AddNvrtc(directory, ToolkitNvrtc());
    found = AddPrograms("ptxas", directory, kToolkitPtxas) || found;
    for (const std::string& packages : Noted(SitePackages(directory))) {
      found = AddPrograms("ptxas", packages, kPackagedPtxas) || found;
      for (const NvrtcPlace& place : PackagedNvrtc()) found = AddNvrtc(packages, place) || found;
    }
    return found;
  }

  std::vector<std::string> Inner(const std::string& directory) {
    installation_ = directory;
    return Noted(SubdirectoriesToSearch(directory));
  }

  std::vector<NativeToolchain> Take() { return std::move(found_); }

 private:
  // What was found of the installation; nothing where it could not be looked at, which is said.
  std::vector<std::string> Noted(absl::StatusOr<std::vector<std::string>> names) {
    if (names.ok()) return *std::move(names);
    AddUnknown(names.status());
    return {};
  }

  void AddUnknown(const absl::Status& why) {
    found_.push_back({"", installation_, {}, {}, why, installation_});
  }

  absl::Status CheckUsable(const std::string& path, int access_mode) {
    if (::access(path.c_str(), access_mode) == 0) return trust_.CheckFrom(searched_, path);
    if (!LeadsToNothing(errno)) return CouldNotLook(errno, path);
    if (access_mode == X_OK) return FailedPrecondition("it is not executable (chmod +x)");
    return FailedPrecondition("it cannot be read");
  }

  // Where what a path leads to lies; "" where that is nothing, or is known already and can be used,
  // and where it could not be looked at, which is said.
  std::string NewFile(const std::string& path) {
    auto real = RealPath(path);
    if (!real.ok()) AddUnknown(real.status());
    const auto known = Known(real.value_or(""));
    const bool is_usable = known != found_.end() && known->problem.ok();
    return real.ok() && !is_usable ? *real : "";
  }

  std::vector<NativeToolchain>::iterator Known(const std::string& real) {
    return std::find_if(found_.begin(), found_.end(),
                        [&](const NativeToolchain& each) { return each.path == real; });
  }

  // A better way to one that was found before takes the place of the other.
  void Add(NativeToolchain toolchain) {
    const auto known = Known(toolchain.path);
    if (known == found_.end()) {
      found_.push_back(std::move(toolchain));
    } else if (toolchain.problem.ok()) {
      *known = std::move(toolchain);
    }
  }

  bool AddPrograms(const std::string& name, const std::string& root,
                   std::span<const std::string_view> places) {
    bool found = false;
    for (const std::string_view place : places) {
      found = AddProgram(name, fmt::format("{}/{}", root, place)) || found;
    }
    return found;
  }

  bool AddProgram(const std::string& name, const std::string& path) {
    const auto is_there = IsFile(path);
    if (!is_there.ok()) AddUnknown(is_there.status());
    if (!is_there.ok() || !*is_there) return false;
    const std::string real = NewFile(path);
    if (real.empty()) return true;
    Add({name, real, {}, {}, CheckUsable(path, X_OK), installation_});
    return true;
  }

  bool AddNvrtc(const std::string& root, const NvrtcPlace& place) {
    const std::string directory = fmt::format("{}/{}", root, place.libraries);
    const std::vector<std::string> libraries = Noted(Versioned(directory, "libnvrtc.so."));
    for (const std::string& path : libraries) {
      const std::string real = NewFile(path);
      if (real.empty()) continue;
      NativeToolchain toolchain{"nvrtc", real, {}, {}, CheckUsable(path, R_OK), installation_};
      Blame(toolchain, AddLibraries(toolchain));
      for (const std::string_view include : place.includes) {
        Blame(toolchain, AddHeaders(fmt::format("{}/{}", root, include), toolchain));
      }
      Add(std::move(toolchain));
    }
    return !libraries.empty();
  }

  absl::Status AddLibraries(NativeToolchain& nvrtc) {
    const std::string holder = fs::path(nvrtc.path).parent_path().string();
    KILN_ASSIGN_OR_RETURN(nvrtc.libraries, Versioned(holder, "libnvrtc-builtins.so."));
    for (const std::string& library : nvrtc.libraries) {
      KILN_RETURN_IF_ERROR(trust_.CheckFrom(holder, library));
    }
    return absl::OkStatus();
  }

  absl::Status AddHeaders(const std::string& named, NativeToolchain& nvrtc) {
    KILN_ASSIGN_OR_RETURN(const std::string headers, RealPath(named));
    if (headers.empty()) return absl::OkStatus();
    nvrtc.includes.push_back(headers);
    return trust_.CheckFrom(searched_, named);
  }

  // The first reason counts.
  static void Blame(NativeToolchain& toolchain, const absl::Status& why_not) {
    if (toolchain.problem.ok()) toolchain.problem = why_not;
  }

  FileTrust trust_;
  std::vector<NativeToolchain> found_;
  std::string installation_;
  std::string searched_;
};

}  // namespace

std::vector<NativeToolchain> FindNativeToolchains(const std::vector<std::string>& directories,
                                                  FileTrust trust) {
  NativeFindings findings(std::move(trust));
  for (const std::string& directory : directories) {
    if (findings.AddCompilers(directory, directory)) continue;
    for (const std::string& inner : findings.Inner(directory)) {
      findings.AddCompilers(inner, directory);
    }
  }
  return findings.Take();
}

}  // namespace kiln
