#include "daemon/sandbox/work_mount.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Room for directories, links and empty files to mount on.
constexpr char kRootOptions[] = "size=64k,nr_inodes=4096,mode=0700";

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

// At `place`, in the new root.
absl::Status MakeEntry(const ViewEntry& entry, const std::string& place) {
  using Kind = ViewEntry::Kind;
  bool is_made = false;
  if (entry.kind == Kind::kLink) {
    is_made = ::symlink(entry.target.c_str(), place.c_str()) == 0;
  } else if (entry.kind == Kind::kShownFile) {
    is_made = UniqueFd(::open(place.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).get() >= 0;
  } else {
    is_made = ::mkdir(place.c_str(), 0700) == 0 || errno == EEXIST;
  }
  if (!is_made) return ErrnoStatus(errno, "make " + entry.path);
  if (entry.kind == Kind::kDirectory || entry.kind == Kind::kLink) return absl::OkStatus();
  const char* const path = entry.path.c_str();
  if (::mount(path, place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0 || errno == ENOENT) {
    return absl::OkStatus();  // ENOENT: gone since the daemon looked
  }
  return ErrnoStatus(errno, "show " + entry.path);
}

// Makes the directory of this process its root. Where the old root is the initramfs, or another
// process's chroot, it cannot be exchanged: then it is covered. Nobody leaves a worker's chroot,
// for want of capabilities.
bool ChangeRoot() {
  if (::syscall(SYS_pivot_root, ".", ".") == 0) return ::umount2(".", MNT_DETACH) == 0;
  return errno == EINVAL && ::mount(".", "/", nullptr, MS_MOVE, nullptr) == 0 && ::chroot(".") == 0;
}

absl::Status EnterMounted(const std::string& root, const std::vector<ViewEntry>& view) {
  for (const ViewEntry& entry : view) KILN_RETURN_IF_ERROR(MakeEntry(entry, root + entry.path));
  if (::chdir(root.c_str()) != 0 || !ChangeRoot() || ::chdir("/") != 0) {
    return ErrnoStatus(errno, "change the root");
  }
  return absl::OkStatus();
}

// Mounts the new root on `root`, for the time that this takes.
absl::Status EnterView(const std::string& root, const std::vector<ViewEntry>& view) {
  KILN_RETURN_IF_ERROR(MountTmpfs(root, kRootOptions));
  const absl::Status entered = EnterMounted(root, view);
  if (!entered.ok()) (void)::umount2(root.c_str(), MNT_DETACH);
  return entered;
}

}  // namespace

absl::Status MountWorkDirectory(const std::string& directory, const WorkerLimits& limits,
                                const std::vector<ViewEntry>& view) {
  KILN_RETURN_IF_ERROR(UnshareMounts());
  // Later unmounts outside reach this process; the mounts below do not reach the outside.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return ErrnoStatus(errno, "detach mounts");
  }
  if (!view.empty()) KILN_RETURN_IF_ERROR(EnterView(directory, view));
  return MountTmpfs(directory, fmt::format("size={},nr_inodes={},mode=0700", limits.disk_bytes,
                                           limits.disk_entries));
}

absl::Status CanMountWorkDirectory(const std::string& directory, const WorkerLimits& limits,
                                   const std::vector<ViewEntry>& view) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  const UniqueFd hears(pipe[0]);
  UniqueFd told(pipe[1]);
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) {
    const absl::Status mounted = MountWorkDirectory(directory, limits, view);
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
