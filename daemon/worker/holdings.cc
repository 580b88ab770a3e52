#include "daemon/worker/holdings.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
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

// What a process has mapped and has no name any more, as /proc/PID/map_files calls it. A file whose
// name ends like this is among them. Adds all that it has mapped to `mappings`.
std::vector<std::string> NamelessMappings(pid_t process, const HoldingsLook& look,
                                          uint64_t& mappings) {
  std::vector<std::string> found;
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line;
       mappings < look.mappings_max && !look.is_pointless() && std::getline(maps, line);) {
    ++mappings;
    uint64_t begin = 0;
    uint64_t end = 0;
    // Here with eight digits at least, there without zeros in front.
    if (line.ends_with(" (deleted)") &&
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) {
      found.push_back(fmt::format("{:x}-{:x}", begin, end));
    }
  }
  return found;
}

// Files of one file system that have no name and are there as long as somebody holds them; each
// counts once, however often it is open or mapped.
class NamelessFiles {
 public:
  explicit NamelessFiles(dev_t device) : device_(device) {}

  // What a process holds; one that is over holds nothing. Who may not look at its own worker's
  // files has lost nothing but this count. Adds all that it has mapped to `mappings`.
  void AddThoseOf(pid_t process, const HoldingsLook& look, uint64_t& mappings) {
    ForEachName(fmt::format("/proc/{}/fd", process), [&](int directory, const char* name) {
      Add(directory, name);
      return !look.is_pointless();
    }).IgnoreError();
    const std::vector<std::string> nameless = NamelessMappings(process, look, mappings);
    if (nameless.empty()) return;
    const UniqueFd directory(::open(fmt::format("/proc/{}/map_files", process).c_str(),
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const std::string& mapping : nameless) {
      if (look.is_pointless()) return;
      Add(directory.get(), mapping.c_str());
    }
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
  void Add(int directory, const char* name) {
    struct stat info;
    // Follows the link to what is held, and to nothing else: that is how /proc has them.
    if (::fstatat(directory, name, &info, 0) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0 &&
        info.st_dev == device_) {
      bytes_[info.st_ino] = BytesOf(info);
    }
  }

  const dev_t device_;
  std::map<ino_t, uint64_t> bytes_;
};

// An upgrade beneath a running zygote takes the names of the libraries that it has mapped, and that
// its workers have of it: those are no compile's.
NamelessFiles ThoseOfZygote(pid_t zygote, dev_t device) {
  NamelessFiles files(device);
  // All of them: what is missed here would be held against the worker.
  const HoldingsLook look{UINT64_MAX, UINT64_MAX, [] { return false; }};
  uint64_t mappings = 0;
  files.AddThoseOf(zygote, look, mappings);
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
  for (const pid_t process : processes) nameless.AddThoseOf(process, look, all.mappings);
  if (!nameless.IsEmpty()) all.disk_bytes += nameless.BytesWithout(ThoseOfZygote(zygote, device));
  return all;
}

}  // namespace kiln
