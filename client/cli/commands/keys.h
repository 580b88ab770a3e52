// Reads keys of the command line, and names of kernels where keys are expected.
#pragma once

#include <string>
#include <string_view>

#include "client/rpc/admin_client.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// What keys are called in a command's help.
inline constexpr char kKeyHelp[] = "64 hex digits, the first 4 and more, or the kernel's name";

// Whether `text` may be the beginning of a key, or all of it.
[[nodiscard]] bool IsKeyPrefix(std::string_view text);

// INVALID_ARGUMENT: `text` is neither a key, nor its first 4 or more digits, nor a name.
[[nodiscard]] absl::Status CheckKey(std::string_view text);

// 64 hex digits are the key itself. Anything else is looked up on the administration socket: as the
// beginning of a key, then as the whole name of a kernel. NOT_FOUND; INVALID_ARGUMENT where there
// are several, which it lists.
[[nodiscard]] absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                                const CallOptions& call);

}  // namespace kiln::cli
