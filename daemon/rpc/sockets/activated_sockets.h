// Sockets that systemd listened on before the daemon started, so that a restart refuses nobody.
#pragma once

#include <vector>

#include "daemon/rpc/sockets/socket_file.h"
#include "storage/base/status.h"

namespace kiln {

// Those of LISTEN_FDS, made close-on-exec and non-blocking; none where the variable is not meant
// for this process. Clears the variables, which children must not inherit. FAILED_PRECONDITION for
// a descriptor that is no listening Unix stream socket. Call once, before the first thread starts.
absl::StatusOr<std::vector<SocketFile>> TakeActivatedSockets();

}  // namespace kiln
