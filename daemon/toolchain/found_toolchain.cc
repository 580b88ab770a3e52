#include "daemon/toolchain/found_toolchain.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "daemon/process/loaded_libraries.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

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
  std::array<std::string_view, 3> includes;  // "": none
};
constexpr NvrtcPlace kToolkitNvrtc{"lib64", {"include", "include/cccl"}};
// … and of NVIDIA's wheels for CUDA 12 and 13.
constexpr NvrtcPlace kPackagedNvrtc[] = {
    {"nvidia/cuda_nvrtc/lib",
     {"nvidia/cuda_runtime/include", "nvidia/cuda_cccl/include", "nvidia/cuda_nvcc/include"}},
    {"nvidia/cu13/lib", {"nvidia/cu13/include", "nvidia/cu13/include/cccl"}}};

// A distribution has clang, and beside it what makes SPIR-V of its bitcode and what checks that:
// Debian's packages clang-15, llvm-spirv-15 and spirv-tools.
constexpr std::string_view kClangProgram = "bin/clang-15";
constexpr std::string_view kSpirvPrograms[] = {"bin/llvm-spirv-15", "bin/spirv-val"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool LooksUnfinished(std::string_view name) {
  return name.starts_with('.') || Contains(name, ".partial") || Contains(name, ".tmp");
}

// Whether a file is there; UNAVAILABLE where it could not be looked at.
absl::StatusOr<bool> IsFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return S_ISREG(info.st_mode);
  if (LeadsToNothing(errno)) return false;
  return CouldNotLook(errno, path);
}

// The names of what is in a directory, sorted; none where it is no directory that may be read.
// UNAVAILABLE where it could not be looked at. Follows links, as the interpreter would.
absl::StatusOr<Names> NamesIn(const std::string& directory) {
  Names names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && !LeadsToNothing(error.value())) return CouldNotLook(error.value(), directory);
  std::sort(names.begin(), names.end());
  return names;
}

// The paths of what is in a directory, of those whose names `is_wanted`.
template <typename IsWanted>
absl::StatusOr<Names> PathsIn(const std::string& directory, IsWanted is_wanted) {
  KILN_ASSIGN_OR_RETURN(Names names, NamesIn(directory));
  std::erase_if(names, [&](const std::string& name) { return !is_wanted(name); });
  for (std::string& name : names) name = fmt::format("{}/{}", directory, name);
  return names;
}

// The files of `directory` called `stem` and a version behind it: "libnvrtc.so.", and then
// "libnvrtc.so.12". Not libnvrtc.so itself, which is a link for those who build with it.
absl::StatusOr<Names> Versioned(const std::string& directory, std::string_view stem) {
  return PathsIn(directory, [stem](std::string_view name) {
    return name.starts_with(stem) && name.size() > stem.size() &&
           name.find_first_not_of("0123456789.", stem.size()) == std::string_view::npos;
  });
}

// "" where there is none to be read.
absl::StatusOr<std::string> ReadRecord(const std::string& path) {
  constexpr uint64_t kBytesMax = limits::kDistributionRecordBytesMax;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (LeadsToNothing(errno)) return "";
    return CouldNotLook(errno, path);
  }
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kBytesMax) return "";
  auto record = OsFilesystem().Read(path, kBytesMax);
  if (record.ok()) return record;
  if (absl::IsNotFound(record.status()) || absl::IsPermissionDenied(record.status())) return "";
  return Unavailable("{}", Message(record.status()));
}

// The version of the distribution that Triton was installed from: that of the *.dist-info directory
// whose list of files has Triton's first one. It may be called otherwise: pytorch_triton, say.
absl::StatusOr<std::string> DistributionVersion(const std::string& site_packages) {
  KILN_ASSIGN_OR_RETURN(const Names directories, PathsIn(site_packages, [](std::string_view name) {
                          return Contains(name, "triton") && name.ends_with(".dist-info");
                        }));
  for (const std::string& directory : directories) {
    KILN_ASSIGN_OR_RETURN(const std::string record, ReadRecord(directory + "/RECORD"));
    if (!Contains('\n' + record, "\ntriton/__init__.py,")) continue;
    const std::string stem = fs::path(directory).stem().string();
    return stem.substr(stem.rfind('-') + 1);
  }
  return "";
}

class Search {
 public:
  explicit Search(FileTrust trust) : trust_(std::move(trust)) {}

  // Whether `directory`, which is `searched` or in it, holds any.
  bool Look(const std::string& directory, const std::string& searched) {
    installation_ = directory;
    searched_ = searched;
    Names packages = Noted(PathsIn(
        directory + "/lib", [](std::string_view name) { return name.starts_with("python3"); }));
    for (std::string& each : packages) each += "/site-packages";
    bool found = AddTriton(packages);
    found = AddNvrtc(directory, kToolkitNvrtc) || found;
    found = AddPtxas(directory, kToolkitPtxas) || found;
    found = AddClang(directory) || found;
    for (const std::string& each : packages) {
      found = AddPtxas(each, kPackagedPtxas) || found;
      for (const NvrtcPlace& place : kPackagedNvrtc) found = AddNvrtc(each, place) || found;
    }
    return found;
  }

  void LookIntoDistribution(const std::string& directory) {
    installation_ = directory;
    searched_ = directory;
    AddClang(directory);
  }

  // What is in a searched directory and may be an installation.
  Names Inner(const std::string& directory) {
    installation_ = directory;
    if (::access(directory.c_str(), R_OK | X_OK) != 0 && errno == EACCES) {
      LogWarning("cannot look for toolchains", {{"directory", directory}});
    }
    return Noted(PathsIn(directory, [](std::string_view name) { return !LooksUnfinished(name); }));
  }

  std::vector<FoundToolchain> Take() { return std::move(found_); }

 private:
  // The value; what stands for none where the installation could not be looked at, which is said.
  template <typename T>
  T Noted(absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    if (found_.empty() || !found_.back().name.empty() || found_.back().path != installation_) {
      found_.push_back({"", installation_, installation_, value.status()});
    }
    return T();
  }

  // Where what a path leads to lies; "" where that is nothing, or is known already and can be used.
  std::string NewPath(const std::string& path) {
    const std::string real = Noted(RealPath(path));
    const auto known = places_.find(real);
    return known == places_.end() || !found_[known->second].problem.ok() ? real : "";
  }

  // A better way to what was found before takes the place of the other.
  void Add(const std::string& real, FoundToolchain toolchain) {
    const auto [known, is_new] = places_.emplace(real, found_.size());
    if (is_new) {
      found_.push_back(std::move(toolchain));
    } else if (toolchain.problem.ok()) {
      found_[known->second] = std::move(toolchain);
    }
  }

  bool AddTriton(Names packages) {
    std::erase_if(packages, [this](const std::string& each) {
      return !Noted(IsFile(each + "/triton/__init__.py"));
    });
    if (packages.empty()) return false;
    const std::string real = NewPath(installation_);
    if (real.empty()) return true;
    FoundToolchain triton{std::string(kTriton), installation_, installation_};
    triton.interpreter = installation_ + "/bin/python";
    triton.package = packages[0] + "/triton";
    const std::string python = fs::path(packages[0]).parent_path().filename();
    triton.python = python.substr(std::string_view("python").size());
    const auto version = DistributionVersion(packages[0]);
    triton.version = version.value_or("");
    Blame(triton, version.status());
    if (packages.size() > 1) {
      Blame(triton, FailedPrecondition(
                        "it has Triton for more than one Python; install each into its own"));
    }
    Blame(triton, CheckPython(triton));
    Blame(triton, CheckTriton(triton, packages[0]));
    Add(real, std::move(triton));
    return true;
  }

  static absl::Status CheckPython(const FoundToolchain& triton) {
    KILN_ASSIGN_OR_RETURN(const bool has_python, IsFile(triton.interpreter));
    if (has_python && ::access(triton.interpreter.c_str(), X_OK) == 0) return absl::OkStatus();
    return FailedPrecondition(
        "its bin/python does not run; was the system's Python replaced? Install it again");
  }

  // All that decides which code the toolchain's Python runs, but for the package's files. Python
  // passes over links that lead to nothing.
  absl::Status CheckTriton(const FoundToolchain& triton, const std::string& site_packages) {
    for (const std::string& path : {triton.interpreter, triton.package}) {
      KILN_RETURN_IF_ERROR(trust_.CheckFrom(searched_, path));
    }
    KILN_ASSIGN_OR_RETURN(const Names entries,
                          PathsIn(site_packages, [](const std::string&) { return true; }));
    for (const std::string& entry : entries) {
      KILN_ASSIGN_OR_RETURN(const std::string real, RealPath(entry));
      if (!real.empty()) KILN_RETURN_IF_ERROR(trust_.CheckFrom(site_packages, entry));
    }
    const std::string configuration = triton.path + "/pyvenv.cfg";
    KILN_ASSIGN_OR_RETURN(const bool is_configured, IsFile(configuration));
    return is_configured ? trust_.CheckFrom(triton.path, configuration) : absl::OkStatus();
  }

  bool AddPtxas(const std::string& root, std::span<const std::string_view> places) {
    bool found = false;
    for (const std::string_view place : places) {
      const std::string path = fmt::format("{}/{}", root, place);
      if (!Noted(IsFile(path))) continue;
      found = true;
      const std::string real = NewPath(path);
      if (real.empty()) continue;
      Add(real, {std::string(kPtxas), real, installation_, CheckUsable(path, X_OK)});
    }
    return found;
  }

  bool AddNvrtc(const std::string& root, const NvrtcPlace& place) {
    const Names libraries =
        Noted(Versioned(fmt::format("{}/{}", root, place.libraries), "libnvrtc.so."));
    for (const std::string& path : libraries) {
      const std::string real = NewPath(path);
      if (real.empty()) continue;
      FoundToolchain nvrtc{std::string(kNvrtc), real, installation_, CheckUsable(path, R_OK)};
      Blame(nvrtc, AddLibraries(nvrtc));
      for (const std::string_view include : place.includes) {
        if (!include.empty()) Blame(nvrtc, AddHeaders(fmt::format("{}/{}", root, include), nvrtc));
      }
      Add(real, std::move(nvrtc));
    }
    return !libraries.empty();
  }

  // A clang without llvm-spirv is somebody's for something else.
  bool AddClang(const std::string& root) {
    if (!Noted(IsFile(fmt::format("{}/{}", root, kSpirvPrograms[0])))) return false;
    const std::string path = fmt::format("{}/{}", root, kClangProgram);
    const std::string real = NewPath(path);
    if (real.empty()) return true;
    FoundToolchain clang{std::string(kClang), path, installation_, CheckUsable(path, X_OK)};
    std::set<std::string> files;
    Blame(clang, AddLoaded(path, files));
    for (const std::string_view other : kSpirvPrograms) {
      const std::string program = fmt::format("{}/{}", root, other);
      if (!Noted(IsFile(program))) {
        Blame(clang, FailedPrecondition("{} is not there: deploy/install-packages opencl installs "
                                        "it, as root",
                                        program));
      }
      Blame(clang, CheckUsable(program, X_OK));
      Blame(clang, AddLoaded(program, files));
      clang.libraries.push_back(program);
    }
    clang.libraries.insert(clang.libraries.end(), files.begin(), files.end());
    Blame(clang, AddClangHeaders(real, clang));
    Add(real, std::move(clang));
    return true;
  }

  absl::Status AddLoaded(const std::string& program, std::set<std::string>& files) {
    KILN_ASSIGN_OR_RETURN(const Names loaded, LibrariesOf(program));
    for (const std::string& file : loaded) {
      KILN_RETURN_IF_ERROR(trust_.CheckFrom(fs::path(file).parent_path(), file));
    }
    files.insert(loaded.begin(), loaded.end());
    return absl::OkStatus();
  }

  // Clang's own headers lie beside its real path.
  absl::Status AddClangHeaders(const std::string& real, FoundToolchain& clang) {
    const fs::path place = fs::path(real).parent_path().parent_path() / "lib/clang";
    KILN_ASSIGN_OR_RETURN(const Names versions,
                          PathsIn(place, [](const std::string&) { return true; }));
    for (const std::string& version : versions) {
      const std::string headers = version + "/include";
      KILN_ASSIGN_OR_RETURN(const bool is_whole, IsFile(headers + "/opencl-c-base.h"));
      if (!is_whole || !clang.includes.empty()) continue;
      clang.includes.push_back(headers);
      KILN_RETURN_IF_ERROR(trust_.CheckFrom(place, headers));
    }
    if (!clang.includes.empty()) return absl::OkStatus();
    return FailedPrecondition("its headers for OpenCL C are not in {} (opencl-c-base.h)",
                              place.string());
  }

  absl::Status AddLibraries(FoundToolchain& nvrtc) {
    const std::string holder = fs::path(nvrtc.path).parent_path().string();
    KILN_ASSIGN_OR_RETURN(nvrtc.libraries, Versioned(holder, "libnvrtc-builtins.so."));
    for (const std::string& library : nvrtc.libraries) {
      KILN_RETURN_IF_ERROR(trust_.CheckFrom(holder, library));
    }
    return absl::OkStatus();
  }

  absl::Status AddHeaders(const std::string& named, FoundToolchain& nvrtc) {
    KILN_ASSIGN_OR_RETURN(const std::string headers, RealPath(named));
    if (headers.empty()) return absl::OkStatus();
    nvrtc.includes.push_back(headers);
    return trust_.CheckFrom(searched_, named);
  }

  absl::Status CheckUsable(const std::string& path, int access_mode) {
    if (::access(path.c_str(), access_mode) == 0) return trust_.CheckFrom(searched_, path);
    if (!LeadsToNothing(errno)) return CouldNotLook(errno, path);
    if (access_mode == X_OK) return FailedPrecondition("it is not executable (chmod +x)");
    return FailedPrecondition("it cannot be read");
  }

  // The first reason counts.
  static void Blame(FoundToolchain& toolchain, const absl::Status& why_not) {
    if (toolchain.problem.ok()) toolchain.problem = why_not;
  }

  FileTrust trust_;
  std::vector<FoundToolchain> found_;
  std::map<std::string, size_t> places_;  // where in found_ what lies at a real path is
  std::string installation_;
  std::string searched_;
};

}  // namespace

std::vector<FoundToolchain> FindToolchains(const std::vector<std::string>& directories,
                                           FileTrust trust) {
  Search search(std::move(trust));
  for (const std::string& directory : directories) {
    if (directory == kDistribution) {
      search.LookIntoDistribution(directory);
      continue;
    }
    search.Look(directory, directory);
    for (const std::string& inner : search.Inner(directory)) search.Look(inner, directory);
  }
  return search.Take();
}

}  // namespace kiln
