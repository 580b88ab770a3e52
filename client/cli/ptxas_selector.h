// The words by which a person names a ptxas.
#pragma once

#include <string>
#include <string_view>

#include "client/rpc/client.h"
#include "storage/base/status.h"

namespace kiln::cli {

// What the daemon understands: for a path (with a '/' in it) the SHA-256 of the file, since the
// daemon may have the same bytes elsewhere; anything else as it is. NOT_FOUND, PERMISSION_DENIED.
[[nodiscard]] absl::StatusOr<std::string> PtxasSelector(std::string_view word);

// The same refusal with the file in it, where `selector` came of one in this process and the
// daemon, which is asked, has no such ptxas; otherwise as it is. Blocks.
[[nodiscard]] absl::Status WithPtxasNamed(const absl::Status& status, std::string_view selector,
                                          Client& client, const CallOptions& call);

}  // namespace kiln::cli
