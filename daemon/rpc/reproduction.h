// A compile request, as operators ask for it to repeat it.
#pragma once

#include <string>

#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln {

// The request behind a key: of a failure or a crash that is remembered (all 64 digits), or of a
// stored artifact. Errors: FindByPrefix's; FAILED_PRECONDITION for an artifact that was stored
// before requests were kept; the store's. Blocks.
absl::Status FindRequest(const RpcDependencies& parts, const AdminActions& actions,
                         const CallContext& context, const std::string& key_prefix,
                         admin::v1::GetRequestResponse& response);

}  // namespace kiln
