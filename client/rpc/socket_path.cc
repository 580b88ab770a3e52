#include "client/rpc/socket_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace kiln {
namespace {

// A variable that is set to nothing counts as unset, as the XDG specification has it.
std::optional<std::string> NonEmpty(const SocketSurroundings& surroundings, const char* name) {
  std::optional<std::string> value = surroundings.variable(name);
  if (value.has_value() && value->empty()) return std::nullopt;
  return value;
}

std::optional<std::string> PersonalRuntimeDirectory(const SocketSurroundings& surroundings) {
  if (auto runtime = NonEmpty(surroundings, "XDG_RUNTIME_DIR")) return *runtime + "/kiln";
  if (auto state = NonEmpty(surroundings, "XDG_STATE_HOME")) return *state + "/kiln/run";
  if (auto home = NonEmpty(surroundings, "HOME")) return *home + "/.local/state/kiln/run";
  return std::nullopt;
}

std::vector<std::string> Candidates(std::string_view file, const SocketSurroundings& surroundings) {
  std::vector<std::string> candidates;
  if (surroundings.uid != 0) {
    if (auto directory = PersonalRuntimeDirectory(surroundings)) {
      candidates.push_back(fmt::format("{}/{}", *directory, file));
    }
  }
  candidates.push_back(fmt::format("/run/kiln/{}", file));
  return candidates;
}

}  // namespace

SocketSurroundings SocketSurroundings::OfProcess() {
  return {
      .variable = [](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        if (value == nullptr) return std::nullopt;
        return std::string(value);
      },
      .exists =
          [](const std::string& path) {
            struct stat status;
            return ::stat(path.c_str(), &status) == 0;
          },
      .uid = ::geteuid(),
  };
}

absl::StatusOr<std::string> FindSocket(std::string_view explicit_path, std::string_view root,
                                       std::string_view file,
                                       const SocketSurroundings& surroundings) {
  if (!explicit_path.empty()) return std::string(explicit_path);
  if (!root.empty()) return fmt::format("{}/run/{}", root, file);
  if (auto variable = NonEmpty(surroundings, "KILN_ROOT")) {
    return fmt::format("{}/run/{}", *variable, file);
  }
  const std::vector<std::string> candidates = Candidates(file, surroundings);
  for (const std::string& candidate : candidates) {
    if (surroundings.exists(candidate)) return candidate;
  }
  return Unavailable("no daemon: there is no socket at {}", fmt::join(candidates, " or "));
}

std::string BesideSocket(std::string_view socket_path, std::string_view name) {
  const size_t slash = socket_path.rfind('/');
  if (slash == std::string_view::npos) return std::string(name);
  return fmt::format("{}/{}", socket_path.substr(0, slash), name);
}

}  // namespace kiln
