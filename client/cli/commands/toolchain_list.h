// The daemon's toolchains, for people and for programs.
#pragma once

#include <string>

#include "client/cli/commands/session.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln::cli {

// A row for each; of those that are not used their reason. With --json an object a line.
void PrintToolchains(Session& session, const admin::v1::ListToolchainsResponse& here);

// How `held` is called among those of `here`: words.h has how.
[[nodiscard]] std::string ToolchainLabel(const admin::v1::HeldToolchain& held,
                                         const admin::v1::ListToolchainsResponse& here);

}  // namespace kiln::cli
