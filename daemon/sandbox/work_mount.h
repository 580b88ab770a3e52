// A worker's directory as a file system of its own.
#pragma once

#include <string>

#include "daemon/sandbox/jail_description.h"
#include "storage/base/status.h"

namespace kiln {

// Mounts a tmpfs of limits.disk_bytes and limits.disk_entries on `directory`. Only the calling
// thread and what it starts see the tmpfs, and it ends with the last of them. Needs CAP_SYS_ADMIN.
absl::Status MountWorkDirectory(const std::string& directory, const WorkerLimits& limits);

// Whether a child of this process could mount one. Leaves nothing behind.
absl::Status CanMountWorkDirectory(const std::string& directory);

}  // namespace kiln
