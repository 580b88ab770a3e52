#include "storage/rocks_open.h"

#include <rocksdb/env.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "storage/base/log.h"
#include "storage/rocks_database.h"
#include "storage/rocks_probe.h"
#include "storage/rocks_schema.h"
#include "storage/rocks_state.h"
#include "storage/rocks_watchdog.h"

namespace kiln {
namespace {

constexpr std::string_view kWriteProbe = ".kiln-write-probe";

absl::Status WithAdvice(const absl::Status& status, const std::string& path) {
  if (absl::IsPermissionDenied(status)) {
    return PermissionDenied(
        "the store {} cannot be written ({}): give uid {} the right to, or choose another "
        "directory",
        path, Message(status), geteuid());
  }
  if (absl::IsResourceExhausted(status)) {
    return ResourceExhausted(
        "the store {} cannot be opened ({}): free some space, or memory or open files where it is "
        "those "
        "that it lacks, then start again",
        path, Message(status));
  }
  return Annotate(status, "the store " + path);
}

absl::Status CheckDirectory(const std::string& path) {
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

// A page, since an empty file can be made on a disk that is full.
absl::Status TryToWrite(const std::string& path, Filesystem& filesystem) {
  const std::string probe = fmt::format("{}/{}", path, kWriteProbe);
  (void)filesystem.Remove(probe);
  KILN_RETURN_IF_ERROR(filesystem.WriteNew(probe, std::string(4096, '\0'), 0600));
  return filesystem.Remove(probe);
}

// Makes the directory where it is missing and returns its real path: beside that, not beside a link
// to it, is where a damaged store is set aside.
absl::StatusOr<std::string> PrepareDirectory(const std::string& path, Filesystem& filesystem) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    KILN_RETURN_IF_ERROR(filesystem.MakeDirectory(path, 0700));
  }
  KILN_RETURN_IF_ERROR(CheckDirectory(path));
  KILN_RETURN_IF_ERROR(TryToWrite(path, filesystem));
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real == nullptr) return ErrnoStatus(errno, "realpath " + path);
  return std::string(real.get());
}

// RocksDB's own lock, held while the store is looked at or moved: a store in use changes under the
// eyes, and would look damaged.
class StoreLock {
 public:
  static absl::StatusOr<StoreLock> Acquire(const std::string& path) {
    rocksdb::FileLock* lock = nullptr;
    const rocksdb::Status status = rocksdb::Env::Default()->LockFile(path + "/LOCK", &lock);
    if (status.ok()) return StoreLock(lock);
    return FailedPrecondition(
        "the store {} is in use by another process: stop it, or choose another directory ({})",
        path, status.ToString());
  }
  StoreLock(StoreLock&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
  StoreLock& operator=(StoreLock&&) = delete;
  ~StoreLock() {
    if (lock_ != nullptr) rocksdb::Env::Default()->UnlockFile(lock_);
  }

 private:
  explicit StoreLock(rocksdb::FileLock* lock) : lock_(lock) {}
  rocksdb::FileLock* lock_;
};

// Files that RocksDB writes before there is a database, or that say nothing about one.
bool IsIncidental(const std::string& name) {
  return name == "LOCK" || name == "IDENTITY" || name.starts_with("LOG") || name == kWriteProbe;
}

enum class Content { kNothing, kDatabase, kRubble };

absl::StatusOr<Content> Inspect(const std::string& path, Filesystem& filesystem) {
  KILN_ASSIGN_OR_RETURN(const auto entries, filesystem.List(path));
  Content content = Content::kNothing;
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == "CURRENT") return Content::kDatabase;
    // What is left of a database whose CURRENT was never written or is lost. RocksDB would make a
    // new database here and delete the old one's tables as leftovers.
    if (!IsIncidental(entry.name)) content = Content::kRubble;
  }
  return content;
}

// Empty: nothing is wrong. An error: nothing can be said.
absl::StatusOr<std::string> FindDamage(const RocksStoreOptions& options, const std::string& path,
                                       Content content, Filesystem& filesystem) {
  if (content == Content::kNothing) return std::string();
  if (content == Content::kRubble) return std::string("its CURRENT file is missing");
  const auto marker = filesystem.Read(fmt::format("{}/{}", path, kDamagedMarker), 4096);
  if (marker.ok()) return "it was found damaged while it ran: " + *marker;
  const absl::Status probed =
      ProbeRocksStore(path, options.expected_bytes, options.open_time_max, options.env);
  if (absl::IsDataLoss(probed)) return std::string(Message(probed));
  if (!probed.ok()) return probed;
  return std::string();
}

absl::StatusOr<std::string> SetAside(const std::string& path, const std::string& damage,
                                     Filesystem& filesystem, const Clock& clock) {
  // Nobody may have begun to use it since it was looked at.
  KILN_ASSIGN_OR_RETURN(const StoreLock lock, StoreLock::Acquire(path));
  const std::string aside = fmt::format("{}.damaged-{}", path, clock.UnixMillis());
  KILN_RETURN_IF_ERROR(filesystem.Rename(path, aside));
  KILN_RETURN_IF_ERROR(filesystem.MakeDirectory(path, 0700));
  LogError("the store was damaged; set it aside and made a new one",
           {{"path", path}, {"set_aside", aside}, {"damage", damage}});
  return aside;
}

absl::Status WriteSchema(RocksDatabase& database) {
  const auto row = database.Get(RocksFamily::kMeta, kSchemaRow);
  if (row.ok() && row->has_value()) return absl::OkStatus();
  RocksDatabase::Batch batch(database);
  batch.Put(RocksFamily::kMeta, kSchemaRow, std::to_string(kRocksSchemaVersion));
  return database.Write(batch);
}

absl::StatusOr<std::unique_ptr<RocksStore>> OpenDatabase(const RocksStoreOptions& options,
                                                         const std::string& path,
                                                         Filesystem& filesystem,
                                                         const Clock& clock) {
  const RocksOpenWatchdog watchdog(path, options.hang_time_max);
  KILN_ASSIGN_OR_RETURN(auto database,
                        RocksDatabase::Open(path, options.expected_bytes, options.env));
  KILN_RETURN_IF_ERROR(WriteSchema(*database));
  KILN_ASSIGN_OR_RETURN(auto state,
                        RocksState::Load(std::move(database), options.expected_bytes, clock));
  return std::make_unique<RocksStore>(std::move(state), path, filesystem);
}

absl::StatusOr<OpenedRocksStore> Open(const RocksStoreOptions& options, const std::string& path,
                                      Filesystem& filesystem, const Clock& clock) {
  OpenedRocksStore opened;
  Content content = Content::kNothing;
  {
    KILN_ASSIGN_OR_RETURN(const StoreLock lock, StoreLock::Acquire(path));
    KILN_ASSIGN_OR_RETURN(content, Inspect(path, filesystem));
  }
  // The probe takes the lock itself.
  KILN_ASSIGN_OR_RETURN(opened.report.damage, FindDamage(options, path, content, filesystem));
  opened.report.is_new = content == Content::kNothing;
  if (opened.report.damage.empty()) {
    auto store = OpenDatabase(options, path, filesystem, clock);
    if (store.ok()) {
      opened.store = *std::move(store);
      return opened;
    }
    // What the probe did not notice.
    if (!absl::IsDataLoss(store.status())) return store.status();
    opened.report.damage = std::string(Message(store.status()));
  }
  opened.report.is_new = true;
  KILN_ASSIGN_OR_RETURN(opened.report.set_aside,
                        SetAside(path, opened.report.damage, filesystem, clock));
  KILN_ASSIGN_OR_RETURN(opened.store, OpenDatabase(options, path, filesystem, clock));
  return opened;
}

}  // namespace

absl::StatusOr<OpenedRocksStore> OpenRocksStore(const RocksStoreOptions& options,
                                                Filesystem& filesystem, const Clock& clock) {
  const auto path = PrepareDirectory(options.path, filesystem);
  if (!path.ok()) return WithAdvice(path.status(), options.path);
  auto opened = Open(options, *path, filesystem, clock);
  if (!opened.ok()) return WithAdvice(opened.status(), options.path);
  LogInfo("opened the store", {{"path", *path}, {"artifacts", opened->store->Stats().artifacts}});
  return opened;
}

}  // namespace kiln
