// Removes a directory whose content may be hostile.
#pragma once

#include <string>

#include "storage/base/status.h"

namespace kiln {

// Removes `path` with everything below it. OK where `path` does not exist. Any depth takes a
// handful of descriptors and no recursion: nested directories are moved up one by one. Gives itself
// access to its own user's directories. Follows no symbolic link. Where something cannot be
// removed, goes on with the rest and returns the first error, an ErrnoStatus. Thread-safe.
absl::Status RemoveTree(const std::string& path);

}  // namespace kiln
