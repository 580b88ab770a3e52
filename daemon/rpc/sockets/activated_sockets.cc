#include "daemon/rpc/sockets/activated_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <cerrno>

namespace kiln {
namespace {

absl::StatusOr<std::string> PathOf(int fd) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ErrnoStatus(errno, "getsockname");
  }
  const size_t offset = offsetof(sockaddr_un, sun_path);
  if (length <= offset || address.sun_path[0] == '\0') {
    return FailedPrecondition("a socket without a path was passed; use ListenStream=/path");
  }
  return std::string(address.sun_path, ::strnlen(address.sun_path, length - offset));
}

}  // namespace

absl::StatusOr<std::vector<SocketFile>> TakeActivatedSockets() {
  const int count = ::sd_listen_fds(/*unset_environment=*/1);
  if (count < 0) return ErrnoStatus(-count, "LISTEN_FDS");
  std::vector<SocketFile> sockets;
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
    if (::sd_is_socket(fd, AF_UNIX, SOCK_STREAM, /*listening=*/1) <= 0) {
      return FailedPrecondition("descriptor {} of LISTEN_FDS is not a listening Unix stream socket",
                                fd);
    }
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
      return ErrnoStatus(errno, "fcntl");
    }
    KILN_ASSIGN_OR_RETURN(std::string path, PathOf(fd));
    sockets.push_back(SocketFile::Adopt(UniqueFd(fd), std::move(path)));
  }
  return sockets;
}

}  // namespace kiln
