#include "daemon/config/paths.h"

#include <unistd.h>

#include <string_view>

namespace kiln {
namespace {

// "" where it is unset or not absolute: the XDG specification says to ignore relative ones.
std::string AbsoluteVariable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty() || found->second.front() != '/')
    return "";
  return found->second;
}

// systemd separates several directories with colons; the first is ours.
std::string FirstOf(std::string value) { return value.substr(0, value.find(':')); }

// $`variable`, or ~/`below_home`, or "".
std::string XdgDirectory(const Environment& environment, std::string_view variable,
                         std::string_view below_home) {
  std::string value = AbsoluteVariable(environment, variable);
  if (!value.empty()) return value;
  const std::string home = AbsoluteVariable(environment, "HOME");
  return home.empty() ? "" : fmt::format("{}/{}", home, below_home);
}

std::string DefaultState(uid_t uid, const Environment& environment) {
  if (uid == 0) return "/var/lib/kiln";
  const std::string base = XdgDirectory(environment, "XDG_STATE_HOME", ".local/state");
  return base.empty() ? "" : base + "/kiln";
}

std::string DefaultRun(uid_t uid, const Environment& environment, const std::string& state) {
  if (uid == 0) return "/run/kiln";
  const std::string base = AbsoluteVariable(environment, "XDG_RUNTIME_DIR");
  return base.empty() ? state + "/run" : base + "/kiln";
}

}  // namespace

Environment ProcessEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

absl::StatusOr<Paths> ResolvePaths(const Config::Paths& configured, uid_t uid,
                                   const Environment& environment) {
  std::string root = configured.root;
  if (root.empty()) root = AbsoluteVariable(environment, "KILN_ROOT");

  Paths paths{configured.state, configured.run};
  if (paths.state.empty() && !root.empty()) paths.state = root + "/state";
  if (paths.state.empty()) paths.state = FirstOf(AbsoluteVariable(environment, "STATE_DIRECTORY"));
  if (paths.state.empty()) paths.state = DefaultState(uid, environment);
  if (paths.state.empty()) {
    return FailedPrecondition(
        "no place to keep the store: HOME is not set; set it, or name a directory with --root");
  }

  if (paths.run.empty() && !root.empty()) paths.run = root + "/run";
  if (paths.run.empty()) paths.run = FirstOf(AbsoluteVariable(environment, "RUNTIME_DIRECTORY"));
  if (paths.run.empty()) paths.run = DefaultRun(uid, environment, DefaultState(uid, environment));
  return paths;
}

std::string DefaultConfigFile(const std::string& root, uid_t uid, const Environment& environment) {
  const std::string under = root.empty() ? AbsoluteVariable(environment, "KILN_ROOT") : root;
  if (!under.empty()) return under + "/kilnd.toml";
  const std::string service = FirstOf(AbsoluteVariable(environment, "CONFIGURATION_DIRECTORY"));
  if (!service.empty()) return service + "/kilnd.toml";
  if (uid == 0) return "/etc/kiln/kilnd.toml";
  const std::string base = XdgDirectory(environment, "XDG_CONFIG_HOME", ".config");
  return base.empty() ? "" : base + "/kiln/kilnd.toml";
}

std::vector<std::string> ToolchainDirectories(const Config::Toolchain& configured,
                                              const Environment& environment) {
  if (!configured.directories.empty()) return configured.directories;
  std::vector<std::string> directories{"/usr/lib/kiln/toolchains", "/var/lib/kiln/toolchains"};
  const std::string cache = XdgDirectory(environment, "XDG_CACHE_HOME", ".cache");
  if (!cache.empty()) directories.push_back(cache + "/kiln/toolchains");
  // CUDA toolkits: the one that the system prefers. Others are named in the configuration.
  directories.push_back("/usr/local/cuda");
  // The distribution's compiler of OpenCL C.
  directories.push_back("/usr");
  return directories;
}

}  // namespace kiln
