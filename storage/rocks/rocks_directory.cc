#include "storage/rocks/rocks_directory.h"

#include <rocksdb/env.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/rocks/rocks_schema.h"
#include "storage/rocks/rocks_status.h"

namespace kiln {
namespace {

constexpr std::string_view kWriteProbe = ".kiln-write-probe";
// An open writes a manifest, options (32 KB) and first blocks besides the rows of the logs.
constexpr uint64_t kOpenBytes = limits::kMiB;

absl::Status CheckOwner(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
  if (!S_ISDIR(info.st_mode)) {
    return FailedPrecondition("{} is not a directory: move it away, or choose another directory",
                              path);
  }
  if (info.st_uid != geteuid()) {
    return FailedPrecondition(
        "the store {} belongs to uid {}, this process runs as uid {}: change its owner (chown -R), "
        "or run as that user",
        path, info.st_uid, geteuid());
  }
  return absl::OkStatus();
}

struct Unlock {
  void operator()(rocksdb::FileLock* lock) const { rocksdb::Env::Default()->UnlockFile(lock); }
};
// RocksDB's own lock, held while the store is read or moved: a store in use changes meanwhile and
// would look damaged.
using StoreLock = std::unique_ptr<rocksdb::FileLock, Unlock>;

absl::StatusOr<StoreLock> LockStore(const std::string& path) {
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status status = rocksdb::Env::Default()->LockFile(path + "/LOCK", &lock);
  if (status.ok()) return StoreLock(lock);
  const absl::Status why = FromRocks(status, "lock " + path);
  // The file could not even be opened.
  if (absl::IsResourceExhausted(why) || absl::IsPermissionDenied(why)) return why;
  return FailedPrecondition(
      "the store {} is in use by another process: stop it, or choose another directory ({})", path,
      status.ToString());
}

// Files that do not prove a database: RocksDB writes them first. A disk that is full at the
// creation leaves a manifest without tables.
bool IsIncidental(std::string_view name) {
  for (const std::string_view start : {"LOG", "MANIFEST-", "OPTIONS-"}) {
    if (name.starts_with(start)) return true;
  }
  return name == "LOCK" || name == "IDENTITY" || name == kWriteProbe || name.ends_with(".dbtmp");
}

// The number that it begins with, or 0.
uint64_t NumberIn(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

}  // namespace

absl::StatusOr<RocksDirectory> RocksDirectory::Prepare(const std::string& path,
                                                       Filesystem& filesystem) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    KILN_RETURN_IF_ERROR(filesystem.MakeDirectory(path, 0700));
  }
  KILN_RETURN_IF_ERROR(CheckOwner(path));
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real == nullptr) return ErrnoStatus(errno, "realpath " + path);
  return RocksDirectory(real.get(), filesystem);
}

absl::StatusOr<RocksDirectory::Content> RocksDirectory::Look() const {
  KILN_ASSIGN_OR_RETURN(const StoreLock lock, LockStore(path_));
  KILN_ASSIGN_OR_RETURN(const auto entries, filesystem_.List(path_));
  bool has_current = false;
  bool has_rubble = false;
  uint64_t newest_log = 0;
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == "CURRENT") has_current = true;
    if (entry.name.ends_with(".log")) newest_log = std::max(newest_log, NumberIn(entry.name));
    if (!IsIncidental(entry.name)) has_rubble = true;
  }
  if (!has_current) return has_rubble ? Content::kRubble : Content::kNothing;
  const auto marker = filesystem_.Read(fmt::format("{}/{}", path_, kLogMarker), 32);
  return newest_log < NumberIn(marker.value_or("")) ? Content::kWithoutLog : Content::kDatabase;
}

absl::Status RocksDirectory::TryToWrite() const {
  const std::string probe = fmt::format("{}/{}", path_, kWriteProbe);
  (void)filesystem_.Remove(probe);
  // A page, since an empty file can be made on a disk that is full.
  KILN_RETURN_IF_ERROR(filesystem_.WriteNew(probe, std::string(4096, '\0'), 0600));
  return filesystem_.Remove(probe);
}

absl::Status RocksDirectory::CheckWritable() const {
  const absl::Status written = TryToWrite();
  if (!written.ok() && !absl::IsResourceExhausted(written)) return written;
  KILN_ASSIGN_OR_RETURN(const auto entries, filesystem_.List(path_));
  uint64_t needed = kOpenBytes;
  for (const DirectoryEntry& entry : entries) {
    // An open writes what the logs hold into tables, and only then removes them.
    if (entry.name.ends_with(".log")) needed += entry.size_bytes;
  }
  const auto free = filesystem_.FreeBytes(path_);
  // A quota may be exhausted on a disk that is not.
  if (!free.ok() || *free >= needed) return written;
  return ResourceExhausted("{} KiB are free, opening it takes {}", *free / limits::kKiB,
                           needed / limits::kKiB);
}

absl::StatusOr<std::string> RocksDirectory::SetAside(const std::string& damage,
                                                     const Clock& clock) const {
  // Another process may have opened the store since the check.
  KILN_ASSIGN_OR_RETURN(const StoreLock lock, LockStore(path_));
  const std::string aside = fmt::format("{}.damaged-{}", path_, clock.UnixMillis());
  KILN_RETURN_IF_ERROR(filesystem_.Rename(path_, aside));
  KILN_RETURN_IF_ERROR(filesystem_.MakeDirectory(path_, 0700));
  LogError("the store is damaged; set it aside",
           {{"path", path_}, {"set_aside", aside}, {"damage", damage}});
  return aside;
}

}  // namespace kiln
