// Reads keys of the command line.
#pragma once

#include <string>
#include <string_view>

#include "client/rpc/admin_client.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// INVALID_ARGUMENT: `text` is not a key, nor its first `digits_min` or more digits.
[[nodiscard]] absl::Status CheckKey(std::string_view text, size_t digits_min = 4);

// 64 hex digits are the key itself; fewer, at least 4, are looked up on the administration socket.
// INVALID_ARGUMENT: no key, or several begin so. NOT_FOUND.
[[nodiscard]] absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                                const CallOptions& call);

}  // namespace kiln::cli
