// The longer calls of AdminService. Both block.
#pragma once

#include <string>

#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln {

// Removes what the request names. Errors: INVALID_ARGUMENT for a request that names nothing, too
// much, or no keys; the index's.
absl::Status EvictRequested(ArtifactIndex& index, const AdminActions& actions,
                            const CallContext& context, const admin::v1::EvictRequest& request,
                            admin::v1::EvictResponse& response);

// The compile request behind a key: of a failure or a crash that is remembered (all 64 digits), or
// of a stored artifact. Errors: FindByPrefix's; FAILED_PRECONDITION for an artifact that was stored
// before requests were kept; the store's.
absl::Status FindRequest(const RpcDependencies& parts, const AdminActions& actions,
                         const CallContext& context, const std::string& key_prefix,
                         admin::v1::GetRequestResponse& response);

// The request behind an artifact that was compiled for this user first. NOT_FOUND for others.
absl::Status FindOwnRequest(const RpcDependencies& parts, const CallContext& context, uid_t uid,
                            const std::string& key_prefix, admin::v1::GetRequestResponse& response);

// The requests behind a page of stored artifacts. Errors: INVALID_ARGUMENT for a wrong `after`; the
// store's.
absl::Status ListRequests(const RpcDependencies& parts, const CallContext& context,
                          const admin::v1::ListRequestsRequest& request,
                          admin::v1::ListRequestsResponse& response);

// The toolchains that are here. The second leaves out paths, and reasons that may have some.
void ListToolchains(const AdminActions& actions, admin::v1::ListToolchainsResponse& response);
void ListToolchainsForEverybody(const AdminActions& actions,
                                admin::v1::ListToolchainsResponse& response);

}  // namespace kiln
