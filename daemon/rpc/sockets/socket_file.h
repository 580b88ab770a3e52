// A Unix socket under a name in the file system, made safely.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

struct SocketFileOptions {
  std::string path;
  mode_t mode = 0600;
  std::optional<gid_t> group;
};

// Listens, non-blocking, close-on-exec. Removes its name when destroyed, unless somebody else has
// taken that name meanwhile. Not thread-safe.
class SocketFile {
 public:
  // Takes the place of a socket that no process listens on any more; leaves anything else that
  // bears the name alone.
  //
  // ALREADY_EXISTS: somebody listens there. FAILED_PRECONDITION: something that is not a socket
  // bears the name (a symbolic link is not followed). INVALID_ARGUMENT: the path is too long for a
  // socket. PERMISSION_DENIED, …: as the system says.
  //
  // REQUIRES: nobody who should not replace the socket may write to its directory.
  static absl::StatusOr<SocketFile> Open(const SocketFileOptions& options);
  // One that came already listening (systemd's); its name is not ours to remove.
  static SocketFile Adopt(UniqueFd fd, std::string path);

  SocketFile(SocketFile&&) noexcept = default;
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  SocketFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  // The file that the name stood for when we made it; 0 for an adopted socket.
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace kiln
