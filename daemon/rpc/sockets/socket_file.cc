#include "daemon/rpc/sockets/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The kernel takes one more without the final NUL, but other programs would not.
  if (path.size() >= sizeof address.sun_path) {
    return InvalidArgument(
        "the socket's path {} has {} bytes; the system allows {}: choose a shorter directory "
        "(--root, or paths.run)",
        path, path.size(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  return fd;
}

const sockaddr* Generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Whether a daemon listens there. A full backlog (EAGAIN) counts as listening.
absl::StatusOr<bool> IsLive(const sockaddr_un& address) {
  KILN_ASSIGN_OR_RETURN(const UniqueFd probe, NewSocket());
  return ::connect(probe.get(), Generic(address), sizeof address) == 0 ||
         (errno != ECONNREFUSED && errno != ENOENT);
}

std::string_view KindName(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISREG(mode)) return "a regular file";
  return "something that is not a socket";
}

// Makes way for a new socket at `path`.
absl::Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, path);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return FailedPrecondition("{} is {}, where the daemon's socket should be: remove it", path,
                              KindName(status.st_mode));
  }
  KILN_ASSIGN_OR_RETURN(const bool is_live, IsLive(address));
  if (is_live) {
    return AlreadyExists("another daemon listens on {}: stop it, or choose another directory",
                         path);
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "cannot remove the stale socket " + path);
  }
  return absl::OkStatus();
}

absl::Status SetAccess(const SocketFileOptions& options) {
  const char* const path = options.path.c_str();
  if (options.group && ::lchown(path, static_cast<uid_t>(-1), *options.group) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot give {} to group {}", path, *options.group));
  }
  if (::chmod(path, options.mode) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot set the permissions of {}", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SocketFile> SocketFile::Open(const SocketFileOptions& options) {
  KILN_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(options.path));
  KILN_RETURN_IF_ERROR(RemoveStale(options.path, address));
  KILN_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  // The name gets the socket's own permissions; nobody else may connect before they are set.
  if (::fchmod(fd.get(), 0600) != 0 || ::bind(fd.get(), Generic(address), sizeof address) != 0) {
    return ErrnoStatus(errno, "cannot make the socket " + options.path);
  }
  struct stat status;
  if (::lstat(options.path.c_str(), &status) != 0) return ErrnoStatus(errno, options.path);
  SocketFile file(std::move(fd), options.path);
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  if (::listen(file.fd(), limits::kListenBacklog) != 0) {
    return ErrnoStatus(errno, "cannot listen on " + options.path);
  }
  KILN_RETURN_IF_ERROR(SetAccess(options));
  return file;
}

SocketFile SocketFile::Adopt(UniqueFd fd, std::string path) {
  return SocketFile(std::move(fd), std::move(path));
}

SocketFile::~SocketFile() {
  if (!fd_ || inode_ == 0) return;
  struct stat status;
  if (::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace kiln
