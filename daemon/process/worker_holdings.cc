#include "daemon/process/worker_holdings.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

constexpr uint64_t kStatBlockBytes = 512;  // of st_blocks, whatever the file system's own are

uint64_t BytesOf(const struct stat& info) {
  return static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
}

// NOT_FOUND as well where a process ends while it is looked at.
absl::Status LookError(int error_number, const std::string& what) {
  return ErrnoStatus(error_number == ESRCH ? ENOENT : error_number, what);
}

// Calls `look` with each entry's name until it says that it has seen enough.
absl::Status ForEachName(const std::string& path,
                         const std::function<bool(int directory, const char* name)>& look) {
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) return LookError(errno, "open " + path);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(opened.get()), ::closedir);
  if (stream == nullptr) return LookError(errno, "fdopendir " + path);
  const int directory = opened.Release();
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return LookError(errno, "read " + path);
    if (entry == nullptr) return absl::OkStatus();
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !look(directory, entry->d_name)) return absl::OkStatus();
  }
}

struct Mappings {
  uint64_t seen = 0;
  // Those without a name any more, as /proc/PID/map_files calls them. A file whose name ends as if
  // it had none is among them.
  std::vector<std::string> nameless;
};

// The first `most` of a thread's; none of one that is over.
absl::StatusOr<Mappings> MappingsOf(pid_t thread, uint64_t most,
                                    const std::function<bool()>& is_pointless) {
  const std::string path = fmt::format("/proc/{}/maps", thread);
  errno = 0;
  std::ifstream maps(path);
  if (!maps) return LookError(errno, "open " + path);
  Mappings found;
  for (std::string line; found.seen < most && !is_pointless() && std::getline(maps, line);) {
    ++found.seen;
    uint64_t begin = 0;
    uint64_t end = 0;
    // Here with eight digits at least, there without zeros in front.
    if (line.ends_with(" (deleted)") &&
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) {
      found.nameless.push_back(fmt::format("{:x}-{:x}", begin, end));
    }
  }
  if (maps.bad()) return LookError(errno, "read " + path);
  return found;
}

// Files of one file system that have no name and are there as long as somebody holds them; each
// counts once, however often it is open or mapped.
class NamelessFiles {
 public:
  explicit NamelessFiles(dev_t device) : device_(device) {}

  // What a process holds; one that is over holds nothing. Who may not look at its own worker's
  // files has lost nothing but this count. Adds all that it has mapped to `mappings`.
  absl::Status AddThoseOf(pid_t process, const HoldingsLook& look, uint64_t& mappings) {
    const uint64_t before = mappings;
    KILN_RETURN_IF_ERROR(Tolerating(AddThoseOfThread(process, look, mappings)));
    const bool has_seen = mappings > before || mappings >= look.mappings_max;
    if (has_seen || look.is_pointless()) return absl::OkStatus();
    // Its first thread is over. Others may go on, and hold the same: each of them all of it.
    absl::Status status;
    const absl::Status listed =
        ForEachName(fmt::format("/proc/{}/task", process), [&](int, const char* thread) {
          status = Tolerating(AddThoseOfThread(std::atoi(thread), look, mappings));
          return status.ok() && mappings == before && !look.is_pointless();
        });
    status.Update(Tolerating(listed));
    return status;
  }

  // What a thread sees of its process's. NOT_FOUND where there is none, PERMISSION_DENIED where
  // nobody may look.
  absl::Status AddThoseOfThread(pid_t thread, const HoldingsLook& look, uint64_t& mappings) {
    KILN_RETURN_IF_ERROR(
        ForEachName(fmt::format("/proc/{}/fd", thread), [&](int directory, const char* name) {
          Add(directory, name);
          return !look.is_pointless();
        }));
    const uint64_t most = look.mappings_max - std::min(look.mappings_max, mappings);
    KILN_ASSIGN_OR_RETURN(const Mappings mapped, MappingsOf(thread, most, look.is_pointless));
    mappings += mapped.seen;
    if (mapped.nameless.empty()) return absl::OkStatus();
    const std::string path = fmt::format("/proc/{}/map_files", thread);
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return LookError(errno, "open " + path);
    for (const std::string& mapping : mapped.nameless) {
      if (look.is_pointless()) break;
      Add(directory.get(), mapping.c_str());
    }
    return absl::OkStatus();
  }

  bool IsEmpty() const { return bytes_.empty(); }
  uint64_t BytesWithout(const NamelessFiles& others) const {
    uint64_t sum = 0;
    for (const auto& [inode, bytes] : bytes_) {
      if (!others.bytes_.contains(inode)) sum += bytes;
    }
    return sum;
  }

 private:
  static absl::Status Tolerating(absl::Status status) {
    const bool is_tolerated = absl::IsNotFound(status) || absl::IsPermissionDenied(status);
    return is_tolerated ? absl::OkStatus() : status;
  }

  void Add(int directory, const char* name) {
    struct stat info;
    // Follows the link to what is held, and to nothing else: that is how /proc has them. What has
    // been closed meanwhile, or may not be looked at, does not count; a descriptor this never
    // takes.
    if (::fstatat(directory, name, &info, 0) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0 &&
        info.st_dev == device_) {
      bytes_[info.st_ino] = BytesOf(info);
    }
  }

  const dev_t device_;
  std::map<ino_t, uint64_t> bytes_;
};

// An upgrade beneath a running zygote takes the names of the libraries that it has mapped, and that
// its workers have of it: those are no compile's. All of them or an error: what is missed here
// would be held against the worker.
absl::StatusOr<NamelessFiles> ThoseOfZygote(pid_t zygote, dev_t device) {
  NamelessFiles files(device);
  const HoldingsLook look{UINT64_MAX, UINT64_MAX, [] { return false; }};
  uint64_t mappings = 0;
  KILN_RETURN_IF_ERROR(files.AddThoseOfThread(zygote, look, mappings));
  return files;
}

}  // namespace

absl::StatusOr<Holdings> MeasureHoldings(const std::string& directory,
                                         const std::vector<pid_t>& processes, pid_t zygote,
                                         const HoldingsLook& look) {
  Holdings all;
  struct stat info;
  if (::lstat(directory.c_str(), &info) != 0) return ErrnoStatus(errno, "lstat " + directory);
  const dev_t device = info.st_dev;
  KILN_RETURN_IF_ERROR(ForEachName(directory, [&](int opened, const char* name) {
    if (::fstatat(opened, name, &info, AT_SYMLINK_NOFOLLOW) == 0) all.disk_bytes += BytesOf(info);
    return ++all.entries < look.entries_max;
  }));
  NamelessFiles nameless(device);
  for (const pid_t process : processes) {
    KILN_RETURN_IF_ERROR(nameless.AddThoseOf(process, look, all.mappings));
  }
  if (nameless.IsEmpty()) return all;
  KILN_ASSIGN_OR_RETURN(const NamelessFiles zygotes, ThoseOfZygote(zygote, device));
  all.disk_bytes += nameless.BytesWithout(zygotes);
  return all;
}

}  // namespace kiln
