#include "daemon/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "storage/base/log.h"

namespace kiln {
namespace {

std::string HolderOf(int file) {
  char text[32] = {};
  const ssize_t size = pread(file, text, sizeof text - 1, 0);
  return size > 0 ? fmt::format("process {}", text) : "another process";
}

}  // namespace

absl::StatusOr<UniqueFd> TakeStateLock(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return ErrnoStatus(errno, fmt::format("cannot open the lock file {}", path));
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, fmt::format("cannot lock {}", path));
    return AlreadyExists(
        "{} is a kilnd that runs on this directory ({} is locked); stop it, or give this one a "
        "directory of its own with --root DIR",
        HolderOf(file.get()), path);
  }
  // For whoever is refused; on a full disk there may be no room for it, and the lock holds all the
  // same. What an earlier process wrote is overwritten before it is cut, since that needs no room.
  const std::string pid = std::to_string(getpid());
  if (pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()) ||
      ftruncate(file.get(), static_cast<off_t>(pid.size())) != 0) {
    LogWarning("cannot note the process in the lock file",
               {{"path", path}, {"error", std::strerror(errno)}});
  }
  return file;
}

}  // namespace kiln
