#include "daemon/rpc/sockets/open_sockets.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

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

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

absl::StatusOr<std::optional<gid_t>> GroupOf(const WantedSocket& wanted) {
  if (wanted.group.empty()) return std::optional<gid_t>();
  const group* found = ::getgrnam(wanted.group.c_str());
  if (found == nullptr) {
    return InvalidArgument("there is no group {} for {} (sockets.group, sockets.admin_group)",
                           wanted.group, FileName(wanted.path));
  }
  return std::optional<gid_t>(found->gr_gid);
}

// None where systemd has not opened it. What was taken has no descriptor any more.
std::optional<SocketFile> TakeActivated(std::vector<SocketFile>& activated,
                                        const WantedSocket& wanted) {
  for (SocketFile& file : activated) {
    if (file.fd() >= 0 && FileName(file.path()) == FileName(wanted.path)) return std::move(file);
  }
  return std::nullopt;
}

absl::StatusOr<SocketFile> TakeOrMake(std::vector<SocketFile>& activated,
                                      const WantedSocket& wanted) {
  if (auto taken = TakeActivated(activated, wanted)) return *std::move(taken);
  KILN_ASSIGN_OR_RETURN(const std::optional<gid_t> gid, GroupOf(wanted));
  return SocketFile::Open({wanted.path, wanted.mode, gid});
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

absl::StatusOr<std::vector<Listener::Socket>> OpenSockets(const std::vector<WantedSocket>& wanted,
                                                          std::vector<SocketFile> activated) {
  std::vector<Listener::Socket> sockets;
  std::string names;
  for (const WantedSocket& socket : wanted) {
    KILN_ASSIGN_OR_RETURN(SocketFile file, TakeOrMake(activated, socket));
    sockets.push_back({std::move(file), socket.is_admin});
    names += fmt::format("{}{}", names.empty() ? "" : ", ", FileName(socket.path));
  }
  for (const SocketFile& file : activated) {
    if (file.fd() < 0) continue;  // taken
    return FailedPrecondition("systemd passes {}, which is not one of {}", file.path(), names);
  }
  return sockets;
}

}  // namespace kiln
