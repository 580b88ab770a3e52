#include "daemon/worker/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>

#include "daemon/worker/process_table.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Whose files are looked at: more are not a compile's.
constexpr size_t kProcessesMax = 64;
constexpr uint64_t kStatBlockBytes = 512;  // of st_blocks, whatever the file system's own are

uint64_t BytesOf(const struct stat& info) {
  return static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
}

// Calls `look` with each entry's name until it says that it has seen enough. OK as well where there
// is no such directory.
absl::Status ForEachName(const std::string& path,
                         const std::function<bool(int directory, const char* name)>& look) {
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened && errno == ENOENT) return absl::OkStatus();
  if (!opened) return ErrnoStatus(errno, "open " + path);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(opened.get()), ::closedir);
  if (stream == nullptr) return ErrnoStatus(errno, "fdopendir " + path);
  const int directory = opened.Release();
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !look(directory, entry->d_name)) break;
  }
  return absl::OkStatus();
}

// Files that it has open and that have no name; a process that is over has none.
uint64_t NamelessBytes(pid_t process, dev_t device) {
  uint64_t bytes = 0;
  // Who may not look at its own worker's files has lost nothing but this count.
  ForEachName(fmt::format("/proc/{}/fd", process), [&](int directory, const char* name) {
    struct stat info;
    // Follows the link to what is open, and to nothing else: that is how /proc has them.
    if (::fstatat(directory, name, &info, 0) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0 &&
        info.st_dev == device) {
      bytes += BytesOf(info);
    }
    return true;
  }).IgnoreError();
  return bytes;
}

}  // namespace

absl::StatusOr<DiskUse> MeasureDiskUse(const std::string& directory, pid_t process,
                                       uint64_t entries_max) {
  DiskUse use;
  struct stat info;
  if (::lstat(directory.c_str(), &info) != 0) return ErrnoStatus(errno, "lstat " + directory);
  const dev_t device = info.st_dev;
  KILN_RETURN_IF_ERROR(ForEachName(directory, [&](int opened, const char* name) {
    if (::fstatat(opened, name, &info, AT_SYMLINK_NOFOLLOW) == 0) use.bytes += BytesOf(info);
    return ++use.entries < entries_max;
  }));
  std::vector<pid_t> processes{process};
  for (size_t i = 0; i < processes.size(); ++i) {
    use.bytes += NamelessBytes(processes[i], device);
    for (const pid_t child : ChildrenOf(processes[i])) {
      if (processes.size() < kProcessesMax) processes.push_back(child);
    }
  }
  return use;
}

}  // namespace kiln
