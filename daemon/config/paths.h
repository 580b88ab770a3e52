// Where the daemon keeps things.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "storage/base/status.h"

namespace kiln {

using Environment = std::map<std::string, std::string, std::less<>>;
// This process's.
Environment ProcessEnvironment();

struct Paths {
  std::string state;  // survives a reboot
  std::string run;    // need not

  std::string Store() const { return state + "/store"; }
  std::string Activity() const { return state + "/activity"; }
  std::string Leases() const { return state + "/leases"; }
  std::string Lock() const { return state + "/lock"; }
  std::string RunLock() const { return run + "/lock"; }
  // For every user: the process that has the lock, which nobody else may read and so take.
  std::string RunPid() const { return run + "/pid"; }
  std::string Socket() const { return run + "/kilnd.sock"; }
  std::string AdminSocket() const { return run + "/admin.sock"; }
  std::string HotDirectory() const { return run + "/hot"; }
  std::string WorkDirectory() const { return run + "/work"; }
};

// The first that is given of: paths.state and paths.run; paths.root (or KILN_ROOT), with DIR/state
// and DIR/run; systemd's STATE_DIRECTORY and RUNTIME_DIRECTORY; for root /var/lib/kiln and
// /run/kiln; for anyone else $XDG_STATE_HOME/kiln
// (~/.local/state/kiln) and $XDG_RUNTIME_DIR/kiln (beneath the state where that is unset).
// FAILED_PRECONDITION where not even HOME is set.
absl::StatusOr<Paths> ResolvePaths(const Config::Paths& configured, uid_t uid,
                                   const Environment& environment);

// The file that is read when none is named, whether it exists or not: /etc/kiln/kilnd.toml for
// root, $XDG_CONFIG_HOME/kiln/kilnd.toml
// (~/.config/kiln/kilnd.toml) for anyone else, kilnd.toml in systemd's CONFIGURATION_DIRECTORY for
// a service, and DIR/kilnd.toml under a root. "" where there is no such place.
std::string DefaultConfigFile(const std::string& root, uid_t uid, const Environment& environment);

// As configured, or the usual places, most specific last: /usr/lib/kiln/toolchains,
// /var/lib/kiln/toolchains, $XDG_CACHE_HOME/kiln/toolchains (~/.cache/kiln/toolchains).
std::vector<std::string> ToolchainDirectories(const Config::Toolchain& configured,
                                              const Environment& environment);

}  // namespace kiln
