// Connects to a Unix socket and checks who serves it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "client/rpc/client.h"
#include "storage/base/status.h"

namespace kiln {

// Connects and asks the kernel who serves the socket (SO_PEERCRED): the server hands out code that
// will run as this user. Connects to `options.socket_path`. Returns a non-blocking descriptor that
// the caller owns. UNAVAILABLE: no process listens, or the listener's queue stayed full for the
// budget. PERMISSION_DENIED: the socket refuses us, or an untrusted user serves it.
// INVALID_ARGUMENT: the path is too long for a socket.
[[nodiscard]] absl::StatusOr<int> Dial(const ConnectOptions& options);

// The check alone: may `served_by` serve a caller of uid `own`?
[[nodiscard]] bool MayServe(uid_t served_by, uid_t own, std::optional<uid_t> configured);

// The uid that serves the socket, where that is why Dial refused it: ConnectOptions::server_uid
// would trust it.
[[nodiscard]] std::optional<std::string> UntrustedServer(const absl::Status& status);

}  // namespace kiln
