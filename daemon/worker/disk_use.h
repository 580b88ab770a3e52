// What a worker and what it starts take of a disk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln {

struct DiskUse {
  uint64_t bytes = 0;     // that the file system gave them, holes not counted
  uint64_t entries = 0;   // in the directory
  uint64_t mappings = 0;  // of the process that has most, files or not
};

// Where a look at it ends, whatever it has not seen.
struct DiskLook {
  uint64_t entries_max = 0;
  uint64_t mappings_max = 0;  // of one process
  SteadyTime until;           // but a few files more
};

// Of the files in `directory` itself (workers cannot make others in it), and of those that lie on
// the same file system without a name, as far as one of `processes` has them open or mapped, and
// `zygote`, which all of these come from, has not. The mappings take
// CAP_CHECKPOINT_RESTORE, as root has it; without it they are not seen. Follows no symbolic link.
// Errors are those of ErrnoStatus. Blocks for as long as `look` says.
absl::StatusOr<DiskUse> MeasureDiskUse(const std::string& directory,
                                       const std::vector<pid_t>& processes, pid_t zygote,
                                       const DiskLook& look);

}  // namespace kiln
