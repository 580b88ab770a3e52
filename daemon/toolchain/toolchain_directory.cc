#include "daemon/toolchain/toolchain_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr std::string_view kDistInfo = ".dist-info";
constexpr std::string_view kPython = "python";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool LooksUnfinished(std::string_view name) {
  return name.empty() || name[0] == '.' || Contains(name, ".partial") || Contains(name, ".tmp");
}

// "" where there is none to be read.
absl::StatusOr<std::string> ReadRecord(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (LeadsToNothing(errno)) return "";
    return CouldNotLook(errno, path);
  }
  constexpr uint64_t kBytesMax = limits::kDistributionRecordBytesMax;
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kBytesMax) return "";
  auto record = OsFilesystem().Read(path, kBytesMax);
  if (record.ok()) return record;
  if (absl::IsNotFound(record.status()) || absl::IsPermissionDenied(record.status())) return "";
  return Unavailable("{}", Message(record.status()));
}

// The version of the distribution that Triton was installed from: that of the *.dist-info directory
// whose list of files has Triton's first one. It may be called otherwise: pytorch_triton, say.
absl::StatusOr<std::string> DistributionVersion(const std::string& site_packages) {
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(site_packages));
  for (const std::string& name : names) {
    if (!Contains(name, "triton") || !EndsWith(name, kDistInfo)) continue;
    KILN_ASSIGN_OR_RETURN(const std::string record,
                          ReadRecord(fmt::format("{}/{}/RECORD", site_packages, name)));
    if (!Contains('\n' + record, "\ntriton/__init__.py,")) continue;
    const std::string stem = name.substr(0, name.size() - kDistInfo.size());
    return stem.substr(stem.rfind('-') + 1);
  }
  return "";
}

// Checks everything that lies directly in a directory that Python imports from. Python passes over
// links that lead to nothing.
absl::Status CheckEntries(const std::string& directory, FileTrust& trust) {
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory));
  for (const std::string& name : names) {
    const std::string entry = fmt::format("{}/{}", directory, name);
    KILN_ASSIGN_OR_RETURN(const std::string real, RealPath(entry));
    if (!real.empty()) KILN_RETURN_IF_ERROR(trust.CheckFrom(directory, entry));
  }
  return absl::OkStatus();
}

// Checks all that decides which code the toolchain's Python runs, but for the package's files.
absl::Status CheckTrusted(const ToolchainDirectory& found, const std::string& searched,
                          FileTrust& trust) {
  for (const std::string& path : {found.interpreter, found.package}) {
    KILN_RETURN_IF_ERROR(trust.CheckFrom(searched, path));
  }
  const std::string packages = std::filesystem::path(found.package).parent_path().string();
  KILN_RETURN_IF_ERROR(CheckEntries(packages, trust));
  const std::string configuration = found.path + "/pyvenv.cfg";
  KILN_ASSIGN_OR_RETURN(const bool is_configured, IsFile(configuration));
  return is_configured ? trust.CheckFrom(found.path, configuration) : absl::OkStatus();
}

absl::Status FindProblem(const ToolchainDirectory& found, size_t pythons,
                         const std::string& searched, FileTrust& trust) {
  if (pythons > 1) {
    return FailedPrecondition("it has Triton for more than one Python; install each into its own");
  }
  KILN_ASSIGN_OR_RETURN(const bool has_python, IsFile(found.interpreter));
  if (!has_python || ::access(found.interpreter.c_str(), X_OK) != 0) {
    return FailedPrecondition(
        "its bin/python does not run; was the system's Python replaced? Install it again");
  }
  return CheckTrusted(found, searched, trust);
}

// `path` is the directory that is searched, or in it. UNAVAILABLE where it could not be looked at.
absl::StatusOr<std::optional<ToolchainDirectory>> Recognize(const std::string& path,
                                                            const std::string& searched,
                                                            FileTrust& trust) {
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> all, SitePackages(path));
  std::vector<std::string> packages;
  for (const std::string& each : all) {
    KILN_ASSIGN_OR_RETURN(const bool has_triton, IsFile(each + "/triton/__init__.py"));
    if (has_triton) packages.push_back(each);
  }
  if (packages.empty()) return std::nullopt;
  ToolchainDirectory found;
  found.path = path;
  found.interpreter = path + "/bin/python";
  found.package = packages[0] + "/triton";
  const std::string python = std::filesystem::path(packages[0]).parent_path().filename().string();
  found.python = python.substr(kPython.size());
  KILN_ASSIGN_OR_RETURN(found.version, DistributionVersion(packages[0]));
  found.problem = FindProblem(found, packages.size(), searched, trust);
  return found;
}

}  // namespace

std::vector<ToolchainDirectory> FindToolchainDirectories(
    const std::vector<std::string>& directories, FileTrust trust) {
  std::vector<ToolchainDirectory> found;
  std::map<std::string, size_t> seen;  // where in `found` what lies at a real path is
  const auto add_unknown = [&](const std::string& path, const absl::Status& why) {
    ToolchainDirectory unknown;
    unknown.path = path;
    unknown.problem = why;
    found.push_back(std::move(unknown));
  };
  const auto add = [&](const std::string& path, const std::string& searched) {
    const auto real = RealPath(path);
    if (!real.ok()) add_unknown(path, real.status());
    if (!real.ok() || real->empty()) return false;
    const auto before = seen.find(*real);
    if (before != seen.end() && found[before->second].problem.ok()) return false;
    absl::StatusOr<std::optional<ToolchainDirectory>> toolchain = Recognize(path, searched, trust);
    if (!toolchain.ok()) add_unknown(path, toolchain.status());
    if (!toolchain.ok() || !toolchain->has_value()) return false;
    const auto [known, is_new] = seen.emplace(*real, found.size());
    if (is_new) {
      found.push_back(**std::move(toolchain));
    } else if ((*toolchain)->problem.ok()) {
      found[known->second] = **std::move(toolchain);
    }
    return true;
  };
  for (const std::string& directory : directories) {
    if (add(directory, directory)) continue;
    const auto inner = SubdirectoriesToSearch(directory);
    if (!inner.ok()) add_unknown(directory, inner.status());
    if (!inner.ok()) continue;
    for (const std::string& each : *inner) add(each, directory);
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> SubdirectoriesToSearch(const std::string& directory) {
  std::error_code error;
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory, error));
  if (error && error != std::errc::no_such_file_or_directory) {
    LogWarning("cannot look for toolchains",
               {{"directory", directory}, {"error", error.message()}});
  }
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!LooksUnfinished(name)) found.push_back(fmt::format("{}/{}", directory, name));
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> SitePackages(const std::string& directory) {
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory + "/lib"));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.rfind("python3", 0) == 0) {
      found.push_back(fmt::format("{}/lib/{}/site-packages", directory, name));
    }
  }
  return found;
}

// Follows links, as the interpreter would.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory,
                                                 std::error_code& error) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && !LeadsToNothing(error.value())) return CouldNotLook(error.value(), directory);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory) {
  std::error_code ignored;
  return NamesIn(directory, ignored);
}

absl::StatusOr<bool> IsFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return S_ISREG(info.st_mode);
  if (LeadsToNothing(errno)) return false;
  return CouldNotLook(errno, path);
}

}  // namespace kiln
