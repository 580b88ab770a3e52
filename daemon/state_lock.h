// One daemon per state directory.
#pragma once

#include <string>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// Takes a lock on a file: held until the descriptor is closed, released by the kernel with the
// process, however that ends. The file stays. ALREADY_EXISTS, naming the process, where another one
// holds the lock. Otherwise why the file cannot be made.
absl::StatusOr<UniqueFd> TakeStateLock(const std::string& path);

}  // namespace kiln
