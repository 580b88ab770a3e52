// Evict, as operators ask for it.
#pragma once

#include "daemon/rpc/admin_actions.h"
#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/artifact_index.h"

namespace kiln {

// Removes what the request names. Errors: INVALID_ARGUMENT for a request that names nothing, too
// much, or no keys; the index's. Blocks.
absl::Status EvictRequested(ArtifactIndex& index, const AdminActions& actions,
                            const CallContext& context, const admin::v1::EvictRequest& request,
                            admin::v1::EvictResponse& response);

}  // namespace kiln
