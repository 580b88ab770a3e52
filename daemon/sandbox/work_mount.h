// What a worker sees of the file system: what its jail names, and a tmpfs as its directory.
#pragma once

#include <string>
#include <vector>

#include "daemon/sandbox/jail_description.h"
#include "storage/base/status.h"

namespace kiln {

// Gives this process a root with the entries of `view` alone, and mounts a tmpfs of
// limits.disk_bytes and limits.disk_entries on `directory`. Without entries the root stays. Only
// this process and what it starts see that, and it ends with the last of them. Without
// CAP_SYS_ADMIN this process enters a user namespace, too, where it has its own uid alone and every
// capability. REQUIRES: it has one thread.
absl::Status MountWorkDirectory(const std::string& directory, const WorkerLimits& limits,
                                const std::vector<ViewEntry>& view);

// Whether a child of this process could do that. Leaves nothing behind.
absl::Status CanMountWorkDirectory(const std::string& directory, const WorkerLimits& limits,
                                   const std::vector<ViewEntry>& view);

}  // namespace kiln
