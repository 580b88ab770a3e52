// The private directories of zygotes and workers.
#pragma once

#include <string>

#include "storage/base/status.h"

namespace kiln {

// Makes `path`, or removes all that is in it; only its owner can enter. Does not follow symbolic
// links. Errors are those of Filesystem (storage/base/filesystem.h); what could be removed is gone.
absl::Status EmptyDirectory(const std::string& path);

// The same, at any price: where something cannot be removed, the directory is renamed to
// PATH.aside-N, which the log says, and made anew; but RESOURCE_EXHAUSTED, as where descriptors are
// lacking, passes. For directories that nobody works in.
absl::Status MakeEmptyDirectory(const std::string& path);

// Makes `path` again where it and any of its parents are gone; only their owner can enter.
absl::Status RestoreDirectory(const std::string& path);

}  // namespace kiln
