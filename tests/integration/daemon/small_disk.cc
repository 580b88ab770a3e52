#include "tests/integration/daemon/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "storage/base/unique_fd.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

void DieUnless(bool is_true, const char* what) {
  if (is_true) return;
  std::perror(what);
  std::abort();
}

// Once in a process: threads stay in the namespace in which they were started.
int EnterNamespace() {
  if (unshare(CLONE_NEWNS) != 0) return errno;
  // Nothing of what is mounted from now on reaches anybody else.
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ? 0 : errno;
}

}  // namespace

std::string SmallDisk::WhyNot() {
  static const int error = EnterNamespace();
  return error == 0 ? ""
                    : std::string("this process must not mount a disk to fill (") +
                          std::strerror(error) + "); run it as root";
}

SmallDisk::SmallDisk(const std::string& path, uint64_t size_bytes) : path_(path) {
  const TempDirectory kept;
  fs::copy(path, kept.path(), fs::copy_options::recursive);
  const std::string options = "mode=0700,size=" + std::to_string(size_bytes);
  DieUnless(mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0, "mount");
  fs::copy(kept.path(), path, fs::copy_options::recursive);
  // Copies are made with our umask.
  for (const auto& entry : fs::directory_iterator(path)) {
    fs::permissions(entry.path(), fs::perms::owner_all);
  }
}

SmallDisk::~SmallDisk() {
  // Detached, since a daemon may still run on it.
  if (umount2(path_.c_str(), MNT_DETACH) != 0) std::perror("umount");
}

void SmallDisk::FillUp(uint64_t left_bytes) {
  struct statvfs info {};
  DieUnless(statvfs(path_.c_str(), &info) == 0, "statvfs");
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  const UniqueFd file(open((path_ + "/fill").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600));
  DieUnless(file.get() >= 0, "open");
  if (free_bytes <= left_bytes) return;
  const auto size = static_cast<off_t>(free_bytes - left_bytes);
  const int error = posix_fallocate(file.get(), 0, size);
  if (error == 0) return;
  // Another writer was faster: go on page by page until there is no room.
  const std::string page(4096, '\0');
  while (write(file.get(), page.data(), page.size()) > 0) {
  }
}

void SmallDisk::Empty() { fs::remove(path_ + "/fill"); }

void SmallDisk::MakeReadOnly() {
  DieUnless(mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0,
            "remount read-only");
}

}  // namespace kiln
