// Removes a directory that somebody hostile may have filled.
#pragma once

#include <string>

#include "storage/base/status.h"

namespace kiln {

// Removes `path` with everything below it; OK as well where there is nothing. However deep it is,
// it takes a handful of descriptors and no recursion: directories within directories are moved up
// one by one. Directories of one's own that forbid reading or writing are made to allow it. Follows
// no symbolic link. Where something cannot be removed, goes on with the rest and returns the first
// error, that of ErrnoStatus. Thread-safe.
absl::Status RemoveTree(const std::string& path);

}  // namespace kiln
