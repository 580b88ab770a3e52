// What a worker and what it starts hold of the machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

struct Holdings {
  uint64_t disk_bytes = 0;  // that the file system gave its files, holes not counted
  uint64_t entries = 0;     // in its directory
  uint64_t mappings = 0;    // of all its processes, files or not
};

// Where a look at them ends, whatever it has not seen. What a worker may hold bounds it, never the
// clock: who makes a look slow would hide things from it.
struct HoldingsLook {
  uint64_t entries_max = 0;
  uint64_t mappings_max = 0;
  std::function<bool()> is_pointless;  // since nobody waits for the compile any more
};

// Of files: those in `directory` itself (workers cannot make others in it), and those that lie on
// the same file system without a name, as far as one of `processes` has them open or mapped, and
// `zygote`, which all of these come from, has not. The mappings take CAP_CHECKPOINT_RESTORE, as
// root has it; without it they are not seen. Of a process one thread is looked at, since all share
// what they hold (system_call_filter.cc). Follows no symbolic link. Errors are those of
// ErrnoStatus: NOT_FOUND where `directory` or `zygote` is gone. Blocks for as long as `look` says.
absl::StatusOr<Holdings> MeasureHoldings(const std::string& directory,
                                         const std::vector<pid_t>& processes, pid_t zygote,
                                         const HoldingsLook& look);

}  // namespace kiln
