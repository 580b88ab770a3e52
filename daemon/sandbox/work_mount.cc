#include "daemon/sandbox/work_mount.h"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <thread>

#include "daemon/process/unshared.h"

namespace kiln {

absl::Status MountWorkDirectory(const std::string& directory, const WorkerLimits& limits) {
  if (::unshare(CLONE_NEWNS) != 0) return ErrnoStatus(errno, "unshare mounts");
  // Later unmounts outside reach this process; the mount below does not reach the outside.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return ErrnoStatus(errno, "detach mounts");
  }
  const std::string size =
      fmt::format("size={},nr_inodes={},mode=0700", limits.disk_bytes, limits.disk_entries);
  if (::mount("kiln", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, size.c_str()) !=
      0) {
    return ErrnoStatus(errno, "mount a tmpfs on " + directory);
  }
  return absl::OkStatus();
}

absl::Status CanMountWorkDirectory(const std::string& directory) {
  absl::Status status;
  WorkerLimits limits;
  limits.disk_bytes = limits::kWorkerDiskBytesMax;
  limits.disk_entries = limits::kWorkerDiskEntriesMax;
  // Mounts of one thread's own vanish with that thread.
  std::thread([&] { status = MountWorkDirectory(directory, limits); }).join();
  return Unshared(status);
}

}  // namespace kiln
