// `kiln toolchain add` and `remove`: install where need be, then ask the daemon.
#pragma once

#include <string>

#include "client/cli/commands/session.h"

namespace kiln::cli {

struct ToolchainAddition {
  std::string what;  // NAME==VERSION, to install it; with `path` NAME
  std::string path;  // of an installation that is there; "": install one
  std::string into;  // where to install; "": the first searched directory that may be written to
};

ExitCode AddToolchain(const ToolchainAddition& wanted, Session& session);

ExitCode RemoveToolchain(const std::string& what, Session& session);

}  // namespace kiln::cli
