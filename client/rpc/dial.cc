#include "client/rpc/dial.h"

#include <absl/strings/cord.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "client/rpc/retry.h"
#include "storage/base/service_uid.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;

constexpr char kUntrustedUrl[] = "kiln.client/untrusted-server";

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgument(
        "the socket path '{}' is {} bytes long, Linux takes 1 to {}: use a shorter directory", path,
        path.size(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::Status DescribeRefusal(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || S_ISSOCK(info.st_mode)) {
    return Unavailable("no daemon: no process listens on {} (left behind by one that ended?)",
                       path);
  }
  return Unavailable("{} is a {}, not a daemon's socket", path,
                     S_ISDIR(info.st_mode) ? "directory" : "file");
}

absl::Status DescribeConnectError(int error_number, const std::string& path) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return Unavailable("no daemon: there is no socket at {}", path);
    case ECONNREFUSED:
      return DescribeRefusal(path);
    case EAGAIN:
      return Unavailable("the daemon's queue of connections on {} stayed full", path);
    case EACCES:
    case EPERM:
      return PermissionDenied("may not connect to {}: {}", path, std::strerror(error_number));
    default:
      return Unavailable("connect to {}: {}", path, std::strerror(error_number));
  }
}

// A full queue is the only thing that passes by itself: a burst of connections overflows it, and
// the kernel says so at once instead of waiting.
absl::Status ConnectWithin(int descriptor, const sockaddr_un& address,
                           const ConnectOptions& options) {
  const auto deadline = steady_clock::now() + options.connect_budget;
  std::chrono::microseconds ceiling = std::chrono::milliseconds(1);
  while (true) {
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return absl::OkStatus();
    }
    const int error_number = errno;
    if (error_number == EINTR) continue;
    const auto wait = RandomDuration(ceiling / 4, ceiling);
    if (error_number != EAGAIN || steady_clock::now() + wait >= deadline) {
      return DescribeConnectError(error_number, options.socket_path);
    }
    std::this_thread::sleep_for(wait);
    ceiling = std::min<std::chrono::microseconds>(ceiling * 2, std::chrono::milliseconds(16));
  }
}

absl::Status CheckServer(int descriptor, const ConnectOptions& options) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus(errno, "who serves " + options.socket_path);
  }
  const uid_t own = ::geteuid();
  if (MayServe(peer.uid, own, options.server_uid)) return absl::OkStatus();
  absl::Status untrusted = PermissionDenied(
      "{} is served by uid {}, which is neither root nor you (uid {}), nor owns /run/kiln: what it "
      "hands out would run as you",
      options.socket_path, peer.uid, own);
  untrusted.SetPayload(kUntrustedUrl, absl::Cord(std::to_string(peer.uid)));
  return untrusted;
}

}  // namespace

std::optional<std::string> UntrustedServer(const absl::Status& status) {
  const auto uid = status.GetPayload(kUntrustedUrl);
  return uid ? std::optional(std::string(*uid)) : std::nullopt;
}

bool MayServe(uid_t served_by, uid_t own, std::optional<uid_t> configured) {
  return served_by == 0 || served_by == own || served_by == configured || served_by == ServiceUid();
}

absl::StatusOr<int> Dial(const ConnectOptions& options) {
  KILN_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(options.socket_path));
  UniqueFd descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (descriptor.get() < 0) return ErrnoStatus(errno, "socket");
  KILN_RETURN_IF_ERROR(ConnectWithin(descriptor.get(), address, options));
  KILN_RETURN_IF_ERROR(CheckServer(descriptor.get(), options));
  return descriptor.Release();
}

}  // namespace kiln
