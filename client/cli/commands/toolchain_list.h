// The daemon's toolchains, for people and for programs.
#pragma once

#include "client/cli/commands/session.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln::cli {

// A row for each; of those that are not used their reason. With --json an object a line.
void PrintToolchains(Session& session, const admin::v1::ListToolchainsResponse& here);

}  // namespace kiln::cli
