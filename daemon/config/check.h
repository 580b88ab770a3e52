// Whether what the configuration names is there.
#pragma once

#include "daemon/config/load.h"
#include "storage/base/status.h"

namespace kiln {

// Looks at this machine: the groups of the sockets, the worker program and the directories of
// toolchains and of headers, as far as they are configured; defaults may be absent.
// INVALID_ARGUMENT naming source, setting, value and what is wrong. Blocks on the file system.
absl::Status CheckThingsNamed(const LoadedConfig& loaded);

// Whether they can be made and used: INVALID_ARGUMENT where a socket's path is longer than the
// system takes, or something on the way is no directory or may not be written to. Makes nothing.
absl::Status CheckPaths(const Paths& paths);

}  // namespace kiln
