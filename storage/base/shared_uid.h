// The uid that stands for several users.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "storage/base/call_context.h"
#include "storage/base/filesystem.h"
#include "storage/base/status.h"

namespace kiln {

// SO_PEERCRED tells a peer's uid as it is called in this process's user namespace, and of every
// user that the namespace does not map the overflow uid. Nothing: each user has a uid.
//
// Of the text of /proc/self/uid_map ("0 100000 65536") and /proc/sys/kernel/overflowuid.
std::optional<uid_t> SharedUid(const std::string& uid_map, const std::string& overflow_uid);
// Of this process. Blocks for two reads.
std::optional<uid_t> SharedUidHere(Filesystem& files);

// PERMISSION_DENIED: several users are this principal, so none of them can have something of their
// own.
absl::Status CheckIsOneUser(std::optional<uid_t> shared_uid, const Principal& principal);

}  // namespace kiln
