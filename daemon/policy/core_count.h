// How many compiles can run at full speed.
#pragma once

#include "daemon/process/control_groups.h"
#include "storage/base/filesystem.h"

namespace kiln {

// Cores that the scheduler lets this process run on (sched_getaffinity). At least 1.
int AffinityCores();

// `cores`, or fewer where a control group's quota gives less; a part of a core counts as one, since
// a quota that is not used up is lost. At least 1. Blocks for a few reads.
int CoresWithinQuota(const ControlGroups& groups, Filesystem& files, int cores);

}  // namespace kiln
