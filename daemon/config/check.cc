#include "daemon/config/check.h"

#include <grp.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "storage/base/users.h"

namespace kiln {
namespace {

absl::Status CheckGroup(const std::string& group) {
  if (group.empty() || ::getgrnam(group.c_str()) != nullptr) return absl::OkStatus();
  return InvalidArgument("there is no group \"{}\" on this machine", group);
}

absl::Status CheckUsers(const std::vector<std::string>& users) {
  for (const std::string& user : users) KILN_RETURN_IF_ERROR(FindUser(user).status());
  return absl::OkStatus();
}

absl::Status CheckScript(const std::string& script) {
  if (script.empty() || ::access(script.c_str(), R_OK) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot read " + script);
}

absl::Status CheckDirectories(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error)) {
      return InvalidArgument("there is no directory {}", directory);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSocketPath(const std::string& path) {
  constexpr size_t kBytesMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kBytesMax) return absl::OkStatus();
  return InvalidArgument(
      "{} has {} bytes, and a socket's path at most {}; choose a shorter one with "
      "--set paths.run=DIR or --root DIR",
      path, path.size(), kBytesMax);
}

// Checks the first existing directory above the one that is to be made.
absl::Status CheckCanBeMade(const std::string& directory) {
  std::filesystem::path there = directory;
  std::error_code error;
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  if (!std::filesystem::is_directory(there, error)) {
    return InvalidArgument("{} cannot be made: {} is not a directory", directory, there.string());
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    const absl::Status refused = ErrnoStatus(errno, there.string());
    return InvalidArgument("{} cannot be written to: {}", directory, Message(refused));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPaths(const Paths& paths) {
  KILN_RETURN_IF_ERROR(CheckSocketPath(paths.Socket()));
  KILN_RETURN_IF_ERROR(CheckCanBeMade(paths.state));
  return CheckCanBeMade(paths.run);
}

absl::Status CheckThingsNamed(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  KILN_RETURN_IF_ERROR(loaded.Blame("sockets.group", CheckGroup(config.sockets.group)));
  KILN_RETURN_IF_ERROR(loaded.Blame("sockets.admin_group", CheckGroup(config.sockets.admin_group)));
  KILN_RETURN_IF_ERROR(loaded.Blame("workers.script", CheckScript(config.workers.script)));
  KILN_RETURN_IF_ERROR(
      loaded.Blame("toolchain.directories", CheckDirectories(config.toolchain.directories)));
  KILN_RETURN_IF_ERROR(
      loaded.Blame("toolchain.trusted_owners", CheckUsers(config.toolchain.trusted_owners)));
  return loaded.Blame("tunings.shared_by", CheckUsers(config.tunings.shared_by));
}

}  // namespace kiln
