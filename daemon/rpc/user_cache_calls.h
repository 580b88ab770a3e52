// GetOwn and PutOwn: entries of the caller's own namespace.
#pragma once

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/call_context.h"
#include "storage/user_cache.h"
#include "storage/user_rate_limit.h"

namespace kiln {

// Both block as the store does. Errors as protos/kiln/v1/kernel_service.proto says.
absl::Status GetOwn(UserCache& own, const CallContext& context, const v1::GetOwnRequest& request,
                    v1::GetOwnResponse& response);
// Nothing of it is stored where the pace does not allow all of it.
absl::Status PutOwn(UserCache& own, UserRateLimit& pace, const CallContext& context,
                    const v1::PutOwnRequest& request);

}  // namespace kiln
