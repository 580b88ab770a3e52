#include "storage/hot/hot_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "storage/base/log.h"
#include "storage/hot/artifact_file.h"

namespace kiln {
namespace {

constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0444;
constexpr mode_t kModeBits = 07777;
constexpr std::string_view kUnpublishedPrefix = ".tmp-";
constexpr size_t kShardDigits = 2;

std::string ShardOf(const Digest& key) { return key.Hex().substr(0, kShardDigits); }

bool IsShardName(std::string_view name) {
  return name.size() == kShardDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Sets the mode whatever the umask is: others may read, only this user may write.
absl::Status Secure(int directory, const std::string& path) {
  struct stat info;
  if (fstat(directory, &info) != 0) return ErrnoStatus(errno, path);
  if (info.st_uid != geteuid()) {
    return FailedPrecondition("{} belongs to uid {}, not to uid {}: remove it or choose another",
                              path, info.st_uid, geteuid());
  }
  if ((info.st_mode & kModeBits) != kDirectoryMode && fchmod(directory, kDirectoryMode) != 0) {
    return ErrnoStatus(errno, fmt::format("chmod {}", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenDirectory(int parent, const std::string& name) {
  UniqueFd directory(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory) return directory;
  if (errno == ENOTDIR || errno == ELOOP) {
    return FailedPrecondition("{} is not a directory: remove it or choose another", name);
  }
  return ErrnoStatus(errno, fmt::format("open {}", name));
}

absl::StatusOr<UniqueFd> MakeDirectory(int parent, const std::string& name) {
  if (mkdirat(parent, name.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, fmt::format("mkdir {}", name));
  }
  KILN_ASSIGN_OR_RETURN(UniqueFd directory, OpenDirectory(parent, name));
  KILN_RETURN_IF_ERROR(Secure(directory.get(), name));
  return directory;
}

absl::StatusOr<std::vector<std::string>> NamesIn(int directory) {
  // fdopendir takes ownership, so it gets a descriptor of its own.
  UniqueFd own(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own) return ErrnoStatus(errno, "open");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(own.get()), closedir);
  if (stream == nullptr) return ErrnoStatus(errno, "fdopendir");
  (void)own.Release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return ErrnoStatus(errno, "readdir");
  return names;
}

// Directories only where they are empty: a tree that is none of ours is left for a person to judge.
void Discard(int directory, const std::string& name, std::string_view why) {
  const bool removed = unlinkat(directory, name.c_str(), 0) == 0 ||
                       unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0;
  if (removed) {
    LogDebug("removed from the hot directory", {{"name", name}, {"because", why}});
  } else {
    LogWarning("cannot be removed from the hot directory, remove it by hand",
               {{"name", name}, {"error", Message(ErrnoStatus(errno, "unlink"))}});
  }
}

absl::StatusOr<HotFile> Check(int shard, std::string_view shard_name, const std::string& name) {
  KILN_ASSIGN_OR_RETURN(const Digest key, Digest::FromHex(name));
  if (key.Hex() != name || ShardOf(key) != shard_name) return InvalidArgument("a wrong name");
  struct stat info;
  if (fstatat(shard, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrnoStatus(errno, "stat");
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & kModeBits) != kFileMode) {
    return FailedPrecondition("not a file that was published here");
  }
  KILN_ASSIGN_OR_RETURN(const auto mapped, MappedArtifact::OpenAt(shard, name, key));
  if (mapped.view().stages.empty()) return DataLoss("it carries no binary");
  return HotFile{key, mapped.view().stages.back().digest, static_cast<uint64_t>(info.st_size),
                 info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec};
}

absl::Status WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write");
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnpublishedName() {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    return ErrnoStatus(errno, "getrandom");
  }
  return fmt::format("{}{:016x}", kUnpublishedPrefix, random);
}

}  // namespace

UnpublishedHotFile::~UnpublishedHotFile() {
  if (!name_.empty()) unlinkat(directory_, name_.c_str(), 0);
}

absl::StatusOr<HotFiles> HotFiles::Open(const std::string& path) {
  auto directory = MakeDirectory(AT_FDCWD, path);
  if (!directory.ok()) return Annotate(directory.status(), "hot directory");
  return HotFiles(path, *std::move(directory));
}

absl::StatusOr<std::vector<HotFile>> HotFiles::Load() {
  std::vector<HotFile> files;
  auto names = NamesIn(directory_.get());
  if (!names.ok()) return Annotate(names.status(), path_);
  for (const std::string& name : *names) {
    if (IsShardName(name)) {
      const absl::Status status = LoadShard(name, files);
      if (!status.ok()) Discard(directory_.get(), name, Message(status));
    } else {
      Discard(directory_.get(), name, "not a name of an artifact");
    }
  }
  std::sort(files.begin(), files.end(), [](const HotFile& a, const HotFile& b) {
    return std::tie(a.modified_unix_ns, a.key) < std::tie(b.modified_unix_ns, b.key);
  });
  return files;
}

absl::Status HotFiles::LoadShard(const std::string& shard, std::vector<HotFile>& files) {
  KILN_ASSIGN_OR_RETURN(const UniqueFd directory, OpenDirectory(directory_.get(), shard));
  KILN_RETURN_IF_ERROR(Secure(directory.get(), shard));
  KILN_ASSIGN_OR_RETURN(const auto names, NamesIn(directory.get()));
  for (const std::string& name : names) {
    const auto file = Check(directory.get(), shard, name);
    if (file.ok()) {
      files.push_back(*file);
    } else {
      Discard(directory.get(), name, Message(file.status()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<UnpublishedHotFile> HotFiles::Write(std::string_view content) {
  KILN_ASSIGN_OR_RETURN(const std::string name, UnpublishedName());
  const UniqueFd fd(openat(directory_.get(), name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR));
  if (!fd) return ErrnoStatus(errno, fmt::format("create a file in {}", path_));
  UnpublishedHotFile file(directory_.get(), name);
  const absl::Status written = WriteAll(fd.get(), content);
  if (!written.ok()) return Annotate(written, fmt::format("a file in {}", path_));
  if (fchmod(fd.get(), kFileMode) != 0) {
    return ErrnoStatus(errno, fmt::format("chmod a file in {}", path_));
  }
  return file;
}

absl::Status HotFiles::Publish(UnpublishedHotFile file, const Digest& key) {
  const std::string name = key.Hex();
  auto shard = MakeDirectory(directory_.get(), ShardOf(key));
  if (!shard.ok()) return Annotate(shard.status(), path_);
  if (renameat(directory_.get(), file.name_.c_str(), shard->get(), name.c_str()) != 0) {
    return ErrnoStatus(errno, fmt::format("rename to {}/{}/{}", path_, ShardOf(key), name));
  }
  file.name_.clear();
  return absl::OkStatus();
}

absl::Status HotFiles::Remove(const Digest& key) {
  const auto shard = OpenDirectory(directory_.get(), ShardOf(key));
  if (absl::IsNotFound(shard.status())) return absl::OkStatus();
  if (!shard.ok()) return Annotate(shard.status(), path_);
  if (unlinkat(shard->get(), key.Hex().c_str(), 0) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, fmt::format("remove {}/{}/{}", path_, ShardOf(key), key.Hex()));
}

absl::StatusOr<uint64_t> HotFiles::FreeBytes() const {
  struct statvfs info;
  if (fstatvfs(directory_.get(), &info) != 0) return ErrnoStatus(errno, path_);
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace kiln
