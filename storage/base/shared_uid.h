// The uid that stands for several users.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "storage/base/call_context.h"
#include "storage/base/filesystem.h"
#include "storage/base/status.h"

namespace kiln {

// SO_PEERCRED reports the overflow uid for every user that this process's user namespace does not
// map. Returns that uid, or nothing where the namespace maps every user.
//
// Takes the text of /proc/self/uid_map ("0 100000 65536") and /proc/sys/kernel/overflowuid.
std::optional<uid_t> SharedUid(const std::string& uid_map, const std::string& overflow_uid);
// SharedUid of this process's own namespace. Blocks for two reads.
std::optional<uid_t> SharedUidHere(Filesystem& files);

// PERMISSION_DENIED where several users share the principal's uid, so none of them can own
// anything.
absl::Status CheckIsOneUser(std::optional<uid_t> shared_uid, const Principal& principal);

}  // namespace kiln
