#include "daemon/toolchain/toolchain_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

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

bool IsFile(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Sorted; none where the directory cannot be read. Follows links, as the interpreter would.
std::vector<std::string> Names(const std::string& directory, std::error_code& error) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> NamesIfReadable(const std::string& directory) {
  std::error_code ignored;
  return Names(directory, ignored);
}

std::vector<std::string> NamesToSearch(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names = Names(directory, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    LogWarning("cannot look for toolchains",
               {{"directory", directory}, {"error", error.message()}});
  }
  return names;
}

bool LooksUnfinished(std::string_view name) {
  return name.empty() || name[0] == '.' || Contains(name, ".partial") || Contains(name, ".tmp");
}

// The version of the distribution that Triton was installed from: that of the *.dist-info directory
// whose list of files has Triton's first one. It may be called otherwise: pytorch_triton, say.
std::string DistributionVersion(const std::string& site_packages) {
  for (const std::string& name : NamesIfReadable(site_packages)) {
    if (!Contains(name, "triton") || !EndsWith(name, kDistInfo)) continue;
    const auto record = OsFilesystem().Read(fmt::format("{}/{}/RECORD", site_packages, name),
                                            limits::kDistributionRecordBytesMax);
    if (!record.ok() || !Contains('\n' + *record, "\ntriton/__init__.py,")) continue;
    const std::string stem = name.substr(0, name.size() - kDistInfo.size());
    return stem.substr(stem.rfind('-') + 1);
  }
  return "";
}

// Of all that decides which code its Python runs, but for the package's files, which are walked
// when they are listed.
std::string FindStrangersHand(const ToolchainDirectory& found, const std::string& searched,
                              FileTrust& trust) {
  for (const std::string& path : {found.interpreter, found.package}) {
    if (std::string why = trust.WhyNotFrom(searched, path); !why.empty()) return why;
  }
  const std::string packages = std::filesystem::path(found.package).parent_path().string();
  const auto why_not = [&](const std::string& directory, const std::string& name) -> std::string {
    const std::string entry = fmt::format("{}/{}", directory, name);
    struct stat info {};
    // Nor does Python see it.
    if (::stat(entry.c_str(), &info) != 0) return "";
    return trust.WhyNotFrom(directory, entry);
  };
  for (const std::string& name : NamesIfReadable(packages)) {
    if (std::string why = why_not(packages, name); !why.empty()) return why;
  }
  return why_not(found.path, "pyvenv.cfg");
}

std::string FindProblem(const ToolchainDirectory& found, size_t pythons,
                        const std::string& searched, FileTrust& trust) {
  if (pythons > 1) return "it has Triton for more than one Python; install each into its own";
  if (!IsFile(found.interpreter) || ::access(found.interpreter.c_str(), X_OK) != 0) {
    return "its bin/python does not run; was the system's Python replaced? Install it again";
  }
  return FindStrangersHand(found, searched, trust);
}

// `path` is the directory that is searched, or in it.
std::optional<ToolchainDirectory> Recognize(const std::string& path, const std::string& searched,
                                            FileTrust& trust) {
  std::vector<std::string> packages = SitePackages(path);
  std::erase_if(packages, [](const std::string& site_packages) {
    return !IsFile(site_packages + "/triton/__init__.py");
  });
  if (packages.empty()) return std::nullopt;
  ToolchainDirectory found;
  found.path = path;
  found.interpreter = path + "/bin/python";
  found.package = packages[0] + "/triton";
  const std::string python = std::filesystem::path(packages[0]).parent_path().filename().string();
  found.python = python.substr(kPython.size());
  found.version = DistributionVersion(packages[0]);
  found.owners = trust.owners();
  found.problem = FindProblem(found, packages.size(), searched, trust);
  return found;
}

}  // namespace

std::vector<ToolchainDirectory> FindToolchainDirectories(
    const std::vector<std::string>& directories, FileTrust trust) {
  std::vector<ToolchainDirectory> found;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path, const std::string& searched) {
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error).string();
    if (error || seen.count(real) != 0) return false;
    std::optional<ToolchainDirectory> toolchain = Recognize(path, searched, trust);
    if (!toolchain) return false;
    seen.insert(real);
    found.push_back(*std::move(toolchain));
    return true;
  };
  for (const std::string& directory : directories) {
    if (add(directory, directory)) continue;
    for (const std::string& inner : SubdirectoriesToSearch(directory)) add(inner, directory);
  }
  return found;
}

std::vector<std::string> SubdirectoriesToSearch(const std::string& directory) {
  std::vector<std::string> found;
  for (const std::string& name : NamesToSearch(directory)) {
    if (!LooksUnfinished(name)) found.push_back(fmt::format("{}/{}", directory, name));
  }
  return found;
}

std::vector<std::string> SitePackages(const std::string& directory) {
  std::vector<std::string> found;
  for (const std::string& name : NamesIfReadable(directory + "/lib")) {
    if (name.rfind("python3", 0) == 0) {
      found.push_back(fmt::format("{}/lib/{}/site-packages", directory, name));
    }
  }
  return found;
}

}  // namespace kiln
