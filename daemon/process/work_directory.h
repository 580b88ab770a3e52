// The private directories of zygotes and workers.
#pragma once

#include <string>

#include "storage/base/status.h"

namespace kiln {

// Makes `path`, or removes all that is in it; only its owner can enter. Does not follow symbolic
// links. Where something cannot be removed, renames the directory to PATH.aside-N, logs that, and
// makes it anew. A lack of descriptors passes, so it is only an error (RESOURCE_EXHAUSTED). Other
// errors are those of Filesystem. For directories that nobody works in.
absl::Status MakeEmptyDirectory(const std::string& path);

// Makes `path` again where it and any of its parents are gone; only their owner can enter.
absl::Status RestoreDirectory(const std::string& path);

}  // namespace kiln
