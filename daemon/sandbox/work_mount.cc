#include "daemon/sandbox/work_mount.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Room for the directories that lead to a worker's own.
constexpr char kCover[] = "size=64k,nr_inodes=64,mode=0700";

absl::Status WriteOwn(const std::string& file, const std::string& text) {
  const std::string path = "/proc/self/" + file;
  const UniqueFd opened(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (opened && ::write(opened.get(), text.data(), text.size()) >= 0) return absl::OkStatus();
  return ErrnoStatus(errno, "write " + path);
}

absl::Status UnshareMounts() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWNS) == 0) return absl::OkStatus();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return ErrnoStatus(errno, "unshare mounts");
  // The kernel lets nobody have a gid_map who could leave a group.
  KILN_RETURN_IF_ERROR(WriteOwn("setgroups", "deny"));
  KILN_RETURN_IF_ERROR(WriteOwn("uid_map", fmt::format("{} {} 1", uid, uid)));
  return WriteOwn("gid_map", fmt::format("{} {} 1", gid, gid));
}

absl::Status MountTmpfs(const std::string& directory, const std::string& options) {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount("kiln", directory.c_str(), "tmpfs", kFlags, options.c_str()) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "mount a tmpfs on " + directory);
}

}  // namespace

absl::Status MountWorkDirectory(const std::string& directory, const WorkerLimits& limits) {
  KILN_RETURN_IF_ERROR(UnshareMounts());
  // Later unmounts outside reach this process; the mounts below do not reach the outside.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return ErrnoStatus(errno, "detach mounts");
  }
  for (const std::string& hidden : limits.hidden) {
    const absl::Status covered = MountTmpfs(hidden, kCover);
    if (!covered.ok() && !absl::IsNotFound(covered)) return covered;
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return ErrnoStatus(error.value(), "make " + directory);
  return MountTmpfs(directory, fmt::format("size={},nr_inodes={},mode=0700", limits.disk_bytes,
                                           limits.disk_entries));
}

absl::Status CanMountWorkDirectory(const std::string& directory, const WorkerLimits& limits) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  const UniqueFd hears(pipe[0]);
  UniqueFd told(pipe[1]);
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) {
    const absl::Status mounted = MountWorkDirectory(directory, limits);
    const std::string_view problem = Message(mounted);
    (void)!::write(told.get(), problem.data(), problem.size());
    ::_exit(0);
  }
  told.Reset();
  ::waitpid(child, nullptr, 0);
  std::array<char, 512> problem{};
  const ssize_t got = ::read(hears.get(), problem.data(), problem.size());
  if (got <= 0) return absl::OkStatus();
  return FailedPrecondition("{}", std::string_view(problem.data(), static_cast<size_t>(got)));
}

}  // namespace kiln
