// The words by which a person names a ptxas.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/rpc/client.h"
#include "storage/base/status.h"

namespace kiln::cli {

// What the daemon understands: for a path (with a '/' in it) the SHA-256 of the file, since the
// daemon may have the same bytes elsewhere; anything else as it is. NOT_FOUND, PERMISSION_DENIED.
[[nodiscard]] absl::StatusOr<std::string> PtxasSelector(std::string_view word);

// Names files in refusals. Asks the daemon for its toolchains once: one file may fail thousands of
// requests. Not thread-safe.
class PtxasNamer {
 public:
  PtxasNamer(Client& client, const CallOptions& call) : client_(client), call_(call) {}

  // Adds the file's name to `status` if this process made `selector` from a file and the daemon
  // does not have that ptxas. May block as a call does.
  [[nodiscard]] absl::Status Annotated(const absl::Status& status, std::string_view selector);

 private:
  Client& client_;
  const CallOptions& call_;
  std::optional<absl::StatusOr<v1::ListToolchainsResponse>> listed_;
};

}  // namespace kiln::cli
