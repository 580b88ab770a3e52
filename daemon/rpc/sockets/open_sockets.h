// The sockets that a daemon serves: those that systemd opened for it, and those it makes itself.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/rpc/sockets/listener.h"
#include "daemon/rpc/sockets/socket_file.h"
#include "storage/base/status.h"

namespace kiln {

// The sockets that systemd listened on before the daemon started, so that a restart refuses nobody:
// those of LISTEN_FDS, made close-on-exec and non-blocking; none where the variable is not meant
// for this process. Clears the variables, which children must not inherit. FAILED_PRECONDITION for
// a descriptor that is no listening Unix stream socket. Call once, before the first thread starts.
absl::StatusOr<std::vector<SocketFile>> TakeActivatedSockets();

struct WantedSocket {
  std::string path;
  mode_t mode = 0600;
  std::string group;  // its name; "": the one that the system gives it
  bool is_admin = false;
};

// One for each that is wanted, in their order. Where one of `activated` has the same file name, it
// is taken as it is, wherever it lies and whoever may open it: its unit says that. The others are
// made.
//
// INVALID_ARGUMENT: there is no such group. FAILED_PRECONDITION: one of `activated` is not wanted.
// Others: as SocketFile::Open has them. On an error nothing that was made stays behind.
absl::StatusOr<std::vector<Listener::Socket>> OpenSockets(const std::vector<WantedSocket>& wanted,
                                                          std::vector<SocketFile> activated);

}  // namespace kiln
