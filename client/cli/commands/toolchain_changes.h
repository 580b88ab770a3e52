// What `kiln toolchain add` and `remove` do: on disk as whoever runs them, then they have the
// daemon look around.
#pragma once

#include <string>

#include "client/cli/commands/session.h"

namespace kiln::cli {

struct ToolchainAddition {
  std::string what;  // NAME==VERSION, to install it; with `path` NAME
  std::string path;  // of an installation that is there; "": install one
  std::string into;  // "": the first of the daemon's directories that may be written to
};

ExitCode AddToolchain(const ToolchainAddition& wanted, Session& session);

ExitCode RemoveToolchain(const std::string& what, Session& session);

}  // namespace kiln::cli
