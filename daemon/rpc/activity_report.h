// What was done for users and jobs, as GetStats tells it.
#pragma once

#include <sys/types.h>

#include <optional>

#include "daemon/observe/activity.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln {

// Adds the jobs of one user; or of all, and what was done on each day.
void ShowActivity(const Activity& activity, std::optional<uid_t> uid,
                  admin::v1::GetStatsResponse& out);

}  // namespace kiln
