// The words by which a person names a ptxas, and refusals for compilers that a daemon lacks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/cli/requests/named_request.h"
#include "client/rpc/client.h"
#include "storage/base/status.h"

namespace kiln::cli {

// What the daemon understands: for a path (with a '/' in it) the SHA-256 of the file, since the
// daemon may have the same bytes elsewhere; anything else as it is. NOT_FOUND, PERMISSION_DENIED.
[[nodiscard]] absl::StatusOr<std::string> PtxasSelector(std::string_view word);

// The compilers that a request names, and the Triton that it was recorded with.
struct NamedCompilers {
  // REQUIRES: the request is there.
  [[nodiscard]] static NamedCompilers Of(const NamedRequest& named);

  std::string toolchain;
  std::string ptxas;
  std::string triton;  // its version; "": not known, or not what compiles the request
};

// Says in refusals what is missing, and how to add it. Asks the daemon for its toolchains once: one
// that is missing may fail thousands of requests. Not thread-safe.
class AbsentCompilers {
 public:
  AbsentCompilers(Client& client, const CallOptions& call) : client_(client), call_(call) {}

  // Adds to `status`, where the daemon does not have it: the file of a ptxas, if this process made
  // its selector from one; the version of a Triton that is named by its fingerprint. May block as a
  // call does.
  [[nodiscard]] absl::Status Annotated(const absl::Status& status, const NamedCompilers& named);

 private:
  std::string WordsOnPtxas(const std::string& selector);
  std::string WordsOnTriton(const NamedCompilers& named);
  // Null where the daemon does not say.
  const v1::ListToolchainsResponse* Listed();

  Client& client_;
  const CallOptions& call_;
  std::optional<absl::StatusOr<v1::ListToolchainsResponse>> listed_;
};

}  // namespace kiln::cli
