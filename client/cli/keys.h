// Keys as people type them.
#pragma once

#include <string>
#include <string_view>

#include "client/rpc/admin_client.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// 64 hex digits are the key itself; fewer, at least 4, are looked up on the administration socket.
// INVALID_ARGUMENT: no key, or several begin so. NOT_FOUND.
[[nodiscard]] absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                                const CallOptions& call);

}  // namespace kiln::cli
