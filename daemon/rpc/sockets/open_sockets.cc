#include "daemon/rpc/sockets/open_sockets.h"

#include <grp.h>

#include <optional>
#include <string_view>
#include <utility>

namespace kiln {
namespace {

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
