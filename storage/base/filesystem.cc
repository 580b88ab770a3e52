#include "storage/base/filesystem.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// The first buffer for a file of unknown size.
constexpr uint64_t kReadBytes = 4096;

absl::Status Failure(std::string_view what, const std::string& path) {
  return ErrnoStatus(errno, fmt::format("{} {}", what, path));
}

absl::Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure("write", path);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

DirectoryEntry Describe(std::string name, const struct stat& info) {
  DirectoryEntry entry;
  entry.name = std::move(name);
  if (S_ISREG(info.st_mode)) entry.kind = DirectoryEntry::Kind::kFile;
  if (S_ISDIR(info.st_mode)) entry.kind = DirectoryEntry::Kind::kDirectory;
  entry.size_bytes = static_cast<uint64_t>(info.st_size);
  entry.modified_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
  return entry;
}

class OperatingSystemFilesystem final : public Filesystem {
 public:
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs info;
    if (statvfs(path.c_str(), &info) != 0) return Failure("statvfs", path);
    return uint64_t{info.f_bavail} * info.f_frsize;
  }

  absl::Status MakeDirectory(const std::string& path, mode_t mode) override {
    if (mkdir(path.c_str(), mode) == 0) return absl::OkStatus();
    if (errno != EEXIST) return Failure("mkdir", path);
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) return Failure("lstat", path);
    if (S_ISDIR(info.st_mode)) return absl::OkStatus();
    return AlreadyExists("mkdir {}: something that is not a directory is in the way", path);
  }

  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return Failure("open", path);
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(fdopendir(fd), closedir);
    if (directory == nullptr) {
      close(fd);
      return Failure("fdopendir", path);
    }
    std::vector<DirectoryEntry> entries;
    errno = 0;
    while (const dirent* found = readdir(directory.get())) {
      std::string name = found->d_name;
      struct stat info;
      // Skips an entry that was removed meanwhile.
      if (name != "." && name != ".." &&
          fstatat(dirfd(directory.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
        entries.push_back(Describe(std::move(name), info));
      }
      errno = 0;
    }
    if (errno != 0) return Failure("readdir", path);
    return entries;
  }

  absl::StatusOr<std::string> Read(const std::string& path, uint64_t size_bytes_max) override {
    // O_NONBLOCK: opening a pipe must not hang.
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return Failure("open", path);
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return Failure("fstat", path);
    if (!S_ISREG(info.st_mode)) return InvalidArgument("{} is not a regular file", path);
    const auto too_large = [&path, size_bytes_max](std::string_view size) {
      return ResourceExhausted("{} has {} bytes, the limit is {}", path, size, size_bytes_max);
    };
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size > size_bytes_max) return too_large(fmt::format("{}", size));
    // Kernel files report a size of 0, so the file ends where a read returns nothing.
    std::string content(
        std::max<uint64_t>(size, std::min<uint64_t>(kReadBytes, size_bytes_max)) + 1, '\0');
    size_t filled = 0;
    while (true) {
      const ssize_t got = read(fd.get(), content.data() + filled, content.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failure("read", path);
      if (got == 0) break;
      filled += static_cast<size_t>(got);
      if (filled > size_bytes_max) return too_large(fmt::format("more than {}", size_bytes_max));
      if (filled == content.size()) content.resize(std::min(2 * filled, size_bytes_max + 1));
    }
    content.resize(filled);
    return content;
  }

  absl::Status WriteNew(const std::string& path, std::string_view content, mode_t mode) override {
    absl::Status status;
    {
      const UniqueFd fd(
          open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
      if (fd.get() < 0) return Failure("create", path);
      status = WriteAll(fd.get(), content, path);
    }
    if (!status.ok()) unlink(path.c_str());
    return status;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return Failure("rename", from + " to " + to);
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return Failure("unlink", path);
    return absl::OkStatus();
  }
};

}  // namespace

Filesystem& OsFilesystem() {
  static OperatingSystemFilesystem* const filesystem = new OperatingSystemFilesystem;
  return *filesystem;
}

}  // namespace kiln
