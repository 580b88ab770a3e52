#include "client/rpc/socket_path.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <vector>

namespace kiln {
namespace {

// A variable that is set to nothing counts as unset, as the XDG specification has it.
std::optional<std::string> NonEmpty(const SocketSurroundings& surroundings, const char* name) {
  const char* const value = surroundings.variable(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// None for root, whose daemon is the system's.
std::optional<std::string> PersonalRuntimeDirectory(const SocketSurroundings& surroundings) {
  if (surroundings.uid == 0) return std::nullopt;
  if (auto runtime = NonEmpty(surroundings, "XDG_RUNTIME_DIR")) return *runtime + "/kiln";
  if (auto state = NonEmpty(surroundings, "XDG_STATE_HOME")) return *state + "/kiln/run";
  if (auto home = NonEmpty(surroundings, "HOME")) return *home + "/.local/state/kiln/run";
  return std::nullopt;
}

}  // namespace

SocketSurroundings SocketSurroundings::OfProcess() {
  return {.variable = [](const char* name) { return std::getenv(name); },
          .exists = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; },
          .uid = ::geteuid()};
}

absl::StatusOr<std::string> FindSocket(std::string_view explicit_path, std::string_view root,
                                       std::string_view file,
                                       const SocketSurroundings& surroundings) {
  if (!explicit_path.empty()) return std::string(explicit_path);
  if (!root.empty()) return fmt::format("{}/run/{}", root, file);
  if (auto variable = NonEmpty(surroundings, "KILN_ROOT")) {
    return fmt::format("{}/run/{}", *variable, file);
  }
  std::vector<std::string> candidates;
  if (auto directory = PersonalRuntimeDirectory(surroundings)) {
    candidates.push_back(fmt::format("{}/{}", *directory, file));
  }
  candidates.push_back(fmt::format("/run/kiln/{}", file));
  for (const std::string& candidate : candidates) {
    if (surroundings.exists(candidate)) return candidate;
  }
  // A daemon that has ended leaves what it published.
  for (const std::string& candidate : candidates) {
    if (surroundings.exists(InSocketFolder(candidate, "hot/toolchains"))) return candidate;
  }
  return Unavailable("no daemon: there is no socket at {}", fmt::join(candidates, " or "));
}

std::string InSocketFolder(std::string_view socket_path, std::string_view name) {
  const size_t slash = socket_path.rfind('/');
  if (slash == std::string_view::npos) return std::string(name);
  return fmt::format("{}/{}", socket_path.substr(0, slash), name);
}

}  // namespace kiln
