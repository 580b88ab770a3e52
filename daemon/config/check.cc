#include "daemon/config/check.h"

#include <grp.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace kiln {
namespace {

absl::Status CheckGroup(const std::string& group) {
  if (group.empty() || ::getgrnam(group.c_str()) != nullptr) return absl::OkStatus();
  return InvalidArgument("there is no group \"{}\" on this machine", group);
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

}  // namespace

absl::Status CheckThingsNamed(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  KILN_RETURN_IF_ERROR(loaded.Blame("sockets.group", CheckGroup(config.sockets.group)));
  KILN_RETURN_IF_ERROR(loaded.Blame("sockets.admin_group", CheckGroup(config.sockets.admin_group)));
  KILN_RETURN_IF_ERROR(loaded.Blame("workers.script", CheckScript(config.workers.script)));
  return loaded.Blame("toolchain.directories", CheckDirectories(config.toolchain.directories));
}

}  // namespace kiln
