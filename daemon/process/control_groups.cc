#include "daemon/process/control_groups.h"

#include <absl/strings/str_split.h>

#include <charconv>
#include <sstream>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// `mount` + `path`, then each directory above it down to `mount`. A path that leaves what the mount
// shows ("/../other", for a process that was moved out of its namespace) says nothing but `mount`.
std::vector<std::string> UpFrom(const std::string& mount, std::string path) {
  std::vector<std::string> directories;
  if (path.find("..") != std::string::npos) path.clear();
  while (!path.empty() && path.back() == '/') path.pop_back();
  while (!path.empty()) {
    directories.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  directories.push_back(mount);
  return directories;
}

template <typename Delimiter>
std::vector<std::string> Split(const std::string& text, Delimiter delimiter) {
  return absl::StrSplit(text, delimiter);
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

ControlGroups ControlGroups::Find(Filesystem& files, const std::string& root) {
  ControlGroups groups;
  const std::string mount = root + "/sys/fs/cgroup";
  const auto listed = files.Read(root + "/proc/self/cgroup", limits::kKernelFileBytesMax);
  bool has_version_1 = false;
  std::string unified = "/";
  // "4:cpu,cpuacct:/path", and for version 2 "0::/path".
  for (const std::string& line : Split(listed.value_or(""), '\n')) {
    const std::vector<std::string> parts = Split(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !parts[2].starts_with('/')) continue;
    if (parts[1].empty()) {
      unified = parts[2];
      continue;
    }
    has_version_1 = true;
    for (const std::string& controller : Split(parts[1], ',')) {
      if (controller == "memory") groups.memory = UpFrom(mount + "/memory", parts[2]);
      if (controller == "cpu") groups.cpu = UpFrom(mount + "/cpu", parts[2]);
      if (controller == "pids") groups.pids = UpFrom(mount + "/pids", parts[2]);
    }
  }
  groups.unified = UpFrom(has_version_1 ? mount + "/unified" : mount, unified);
  return groups;
}

std::optional<uint64_t> ReadNumber(Filesystem& files, const std::string& path) {
  const auto text = files.Read(path, limits::kKernelFileBytesMax);
  return text.ok() ? ParseNumber(*text) : std::nullopt;
}

std::optional<uint64_t> ReadField(Filesystem& files, const std::string& path,
                                  std::string_view name) {
  const auto text = files.Read(path, limits::kKernelFileBytesMax);
  if (!text.ok()) return std::nullopt;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > name.size() && line.compare(0, name.size(), name) == 0 &&
        (line[name.size()] == ' ' || line[name.size()] == '\t')) {
      return ParseNumber(std::string_view(line).substr(name.size()));
    }
  }
  return std::nullopt;
}

}  // namespace kiln
