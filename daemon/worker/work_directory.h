// The private directories of zygotes and workers.
#pragma once

#include <string>

#include "storage/base/status.h"

namespace kiln {

// Makes `path`, or removes all that is in it; only its owner can enter. Does not follow symbolic
// links. Errors are those of Filesystem (storage/base/filesystem.h).
absl::Status MakeEmptyDirectory(const std::string& path);

// Makes `path` again where it and any of its parents are gone; only their owner can enter.
absl::Status RestoreDirectory(const std::string& path);

}  // namespace kiln
