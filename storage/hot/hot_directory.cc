#include "storage/hot/hot_directory.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "storage/base/log.h"
#include "storage/base/mutex.h"
#include "storage/base/remove_tree.h"
#include "storage/hot/artifact_file.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

constexpr auto kWarningInterval = std::chrono::minutes(1);
// Others may read, only this user may write. The daemon's umask takes nothing of that away.
constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0444;
constexpr mode_t kPrivateFileMode = 0400;
constexpr std::string_view kUnpublishedPrefix = ".tmp-";
constexpr size_t kShardDigits = 2;
// What stands behind the key in the names of an artifact's files: of the final binary, and of the
// stages before it.
constexpr const char* kSuffixes[] = {"", kEarlierStages};

// The content of each file. Empty: there is none.
using Contents = std::array<std::string, std::size(kSuffixes)>;

absl::StatusOr<Contents> Encode(const ArtifactRecord& record, std::span<const Blob> blobs) {
  const Blob* binary = FindFinalBinary(record, blobs);
  if (binary == nullptr) return InvalidArgument("the artifact's binary is not among its blobs");
  std::vector<NamedBlob> stages;
  for (const StageReference& stage : record.stages) {
    if (stage.stage == kRequestStage) continue;
    const auto blob = std::ranges::find(blobs, stage.digest, &Blob::digest);
    if (blob != blobs.end()) stages.push_back({stage.stage, *blob});
  }
  const std::span<const NamedBlob> last = std::span(stages).last(1);
  const std::span<const NamedBlob> earlier = std::span(stages).first(stages.size() - 1);
  Contents contents;
  KILN_ASSIGN_OR_RETURN(contents[0],
                        EncodeArtifactFile(record.key, record.document, record.description, last));
  if (earlier.empty()) return contents;
  KILN_ASSIGN_OR_RETURN(contents[1],
                        EncodeArtifactFile(record.key, binary->digest().Bytes(), "", earlier));
  return contents;
}

// Lets the user of a user cache entry read its file, by an access list (acl(5)). UNIMPLEMENTED
// where the file system has none.
absl::Status LetUserRead(const std::string& path, const ArtifactRecord& entry) {
  KILN_ASSIGN_OR_RETURN(const UserCacheRecord own, DecodeUserCacheRecord(entry.document));
  if (own.uid == geteuid()) return absl::OkStatus();
  constexpr auto kNobody = static_cast<uint32_t>(ACL_UNDEFINED_ID);
  const struct {
    posix_acl_xattr_header header{POSIX_ACL_XATTR_VERSION};
    posix_acl_xattr_entry entries[5];
  } list{.entries = {{ACL_USER_OBJ, ACL_READ, kNobody},
                     {ACL_USER, ACL_READ, own.uid},
                     {ACL_GROUP_OBJ, 0, kNobody},
                     {ACL_MASK, ACL_READ, kNobody},
                     {ACL_OTHER, 0, kNobody}}};
  const int result = setxattr(path.c_str(), "system.posix_acl_access", &list, sizeof list, 0);
  if (result == 0) return absl::OkStatus();
  if (errno == ENOTSUP) return absl::UnimplementedError(path + ": no access lists here");
  return ErrnoStatus(errno, "set the access list of " + path);
}

// A file's access list names one user.
bool IsSharedTuning(const ArtifactRecord& record) {
  if (!IsUserCacheKey(record.key)) return false;
  const auto own = DecodeUserCacheRecord(record.document);
  return own.ok() && own->uid == kTuningsUid;
}

bool IsShardName(std::string_view name) {
  return name.size() == kShardDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Makes the directory, or takes over that of an earlier daemon without its files.
absl::Status TakeOver(const std::string& path, Filesystem& filesystem) {
  KILN_RETURN_IF_ERROR(filesystem.MakeDirectory(path, kDirectoryMode));
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
  if (info.st_uid != geteuid()) {
    return FailedPrecondition("{} belongs to uid {}, not to uid {}: remove it or choose another",
                              path, info.st_uid, geteuid());
  }
  if (chmod(path.c_str(), kDirectoryMode) != 0) return ErrnoStatus(errno, "chmod " + path);
  KILN_ASSIGN_OR_RETURN(const auto entries, filesystem.List(path));
  for (const DirectoryEntry& entry : entries) {
    // Files that are none of ours are for a person to judge.
    if (!IsShardName(entry.name) && !entry.name.starts_with(kUnpublishedPrefix)) continue;
    const absl::Status removed = RemoveTree(fmt::format("{}/{}", path, entry.name));
    if (!removed.ok()) {
      LogWarning("cannot be removed from the hot directory, remove it by hand",
                 {{"name", entry.name}, {"error", Message(removed)}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HotDirectory>> HotDirectory::Open(const std::string& path,
                                                                 const HotDirectoryOptions& options,
                                                                 Filesystem& filesystem,
                                                                 const Clock& clock) {
  KILN_RETURN_IF_ERROR(TakeOver(path, filesystem));
  return std::unique_ptr<HotDirectory>(new HotDirectory(path, options, filesystem, clock));
}

void HotDirectory::OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) {
  // An entry that only names outputs has nothing of its own to publish.
  if (record.stages.empty() && IsUserCacheKey(record.key)) return Drop(record.key);
  if (IsSharedTuning(record)) return Drop(record.key);
  const absl::Status status = Write(record, blobs, Source::kPut);
  if (status.ok()) return;
  // The published file is the key's earlier one.
  Drop(record.key);
  CountFailure(status);
}

void HotDirectory::OnRemove(const Digest& key) { Drop(key); }

bool HotDirectory::NoteUse(const Digest& key) {
  const MutexLock lock(mutex_);
  return entries_.Find(key) != nullptr;
}

void HotDirectory::Publish(const ArtifactRecord& record, std::span<const Blob> blobs) {
  if (NoteUse(record.key) || IsSharedTuning(record)) return;
  const absl::Status status = Write(record, blobs, Source::kHit);
  if (!status.ok()) CountFailure(status);
}

void HotDirectory::PublishFile(std::string_view name, std::string_view content) {
  assert(!IsShardName(name));
  const std::string path = fmt::format("{}/{}", path_, name);
  absl::Status status;
  if (options_.bytes_max > 0) status = Replace(path, content);
  if (!status.ok()) CountFailure(status);
  if (!status.ok() || options_.bytes_max == 0) (void)filesystem_.Remove(path);
}

std::string HotDirectory::UnpublishedPath() {
  return fmt::format("{}/{}{}", path_, kUnpublishedPrefix, ++unpublished_files_);
}

absl::Status HotDirectory::Replace(const std::string& path, std::string_view content) {
  const std::string unpublished = UnpublishedPath();
  KILN_RETURN_IF_ERROR(filesystem_.WriteNew(unpublished, content, kFileMode));
  const absl::Status renamed = filesystem_.Rename(unpublished, path);
  if (!renamed.ok()) (void)filesystem_.Remove(unpublished);
  return renamed;
}

absl::Status HotDirectory::Write(const ArtifactRecord& record, std::span<const Blob> blobs,
                                 Source source) {
  KILN_ASSIGN_OR_RETURN(const Contents contents, Encode(record, blobs));
  const uint64_t size_bytes = contents[0].size() + contents[1].size();
  if (size_bytes > options_.bytes_max || options_.files_max == 0) {
    if (source == Source::kPut) Drop(record.key);
    return absl::OkStatus();
  }
  KILN_RETURN_IF_ERROR(LeaveFree(size_bytes));
  const bool is_own = IsUserCacheKey(record.key);
  const std::string unpublished = UnpublishedPath();
  absl::Status status;
  for (size_t i = 0; i < contents.size() && status.ok(); ++i) {
    if (contents[i].empty()) continue;
    status = filesystem_.WriteNew(unpublished + kSuffixes[i], contents[i],
                                  is_own ? kPrivateFileMode : kFileMode);
  }
  if (status.ok() && is_own) status = LetUserRead(unpublished, record);
  if (status.ok()) status = MoveIn(unpublished, size_bytes, record.key, source);
  // They are there only where they were not published.
  for (const char* suffix : kSuffixes) (void)filesystem_.Remove(unpublished + suffix);
  return status;
}

absl::Status HotDirectory::MoveIn(const std::string& unpublished, uint64_t size_bytes,
                                  const Digest& key, Source source) {
  const MutexLock files_lock(files_mutex_);
  if (IsOutdatedHit(key, source)) return absl::OkStatus();
  while (!Fits(key, size_bytes)) KILN_RETURN_IF_ERROR(EvictOldest().status());
  KILN_RETURN_IF_ERROR(filesystem_.MakeDirectory(ShardOf(key), kDirectoryMode));
  KILN_RETURN_IF_ERROR(filesystem_.Rename(unpublished, PathOf(key)));
  {
    const MutexLock lock(mutex_);
    entries_.Insert(key, size_bytes, size_bytes);
    ++counters_.published;
    if (source == Source::kPut) changes_.Insert(key, clock_.Now(), 0);
  }
  // A reader between the two asks the daemon for the earlier stages.
  const absl::Status earlier =
      filesystem_.Rename(unpublished + kSuffixes[1], PathOf(key) + kSuffixes[1]);
  return absl::IsNotFound(earlier) ? absl::OkStatus() : earlier;
}

std::string HotDirectory::ShardOf(const Digest& key) const {
  return fmt::format("{}/{}", path_, key.Hex().substr(0, kShardDigits));
}

std::string HotDirectory::PathOf(const Digest& key) const {
  return fmt::format("{}/{}", ShardOf(key), key.Hex());
}

bool HotDirectory::IsOutdatedHit(const Digest& key, Source source) const {
  if (source == Source::kPut) return false;
  const MutexLock lock(mutex_);
  if (entries_.Peek(key) != nullptr) return true;
  const SteadyTime* changed = changes_.Peek(key);
  return changed != nullptr && clock_.Now() - *changed < limits::kRecentChangesAge;
}

// Whether a file fits within the bounds. The earlier file of `key` counts as gone, and becomes the
// last to be evicted.
bool HotDirectory::Fits(const Digest& key, uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  const uint64_t* replaced = entries_.Find(key);
  const uint64_t freed_bytes = replaced == nullptr ? 0 : *replaced;
  const size_t freed_files = replaced == nullptr ? 0 : 1;
  return entries_.bytes() - freed_bytes + size_bytes <= options_.bytes_max &&
         entries_.size() - freed_files + 1 <= options_.files_max;
}

// Makes room on the file system, which has other users. Each call removes files only once, since a
// file that a process still maps frees nothing.
absl::Status HotDirectory::LeaveFree(uint64_t needed_bytes) {
  KILN_ASSIGN_OR_RETURN(uint64_t free, filesystem_.FreeBytes(path_));
  const uint64_t wanted = limits::kHotFreeBytesMin + needed_bytes;
  if (free >= wanted) return absl::OkStatus();
  {
    const MutexLock files_lock(files_mutex_);
    for (uint64_t removed_bytes = 0; removed_bytes < wanted - free;) {
      KILN_ASSIGN_OR_RETURN(const uint64_t bytes, EvictOldest());
      if (bytes == 0) break;
      removed_bytes += bytes;
    }
  }
  KILN_ASSIGN_OR_RETURN(free, filesystem_.FreeBytes(path_));
  if (free >= wanted) return absl::OkStatus();
  return ResourceExhausted("{} has {} MiB free, and {} MiB are left to others: make room there",
                           path(), free / limits::kMiB, limits::kHotFreeBytesMin / limits::kMiB);
}

absl::StatusOr<uint64_t> HotDirectory::EvictOldest() {
  MutexLock lock(mutex_);
  if (entries_.size() == 0) return 0;
  const Digest key = entries_.Oldest();
  const uint64_t size_bytes = *entries_.Peek(key);
  ++counters_.evicted;
  lock.Unlock();
  KILN_RETURN_IF_ERROR(RemoveFile(key));
  return size_bytes;
}

absl::Status HotDirectory::RemoveFile(const Digest& key) {
  {
    const MutexLock lock(mutex_);
    if (!entries_.Erase(key)) return absl::OkStatus();
  }
  absl::Status status;
  for (const char* suffix : kSuffixes) {
    const absl::Status removed = filesystem_.Remove(PathOf(key) + suffix);
    if (!absl::IsNotFound(removed)) status.Update(removed);
  }
  return status;
}

void HotDirectory::Drop(const Digest& key) {
  absl::Status status;
  {
    const MutexLock files_lock(files_mutex_);
    {
      const MutexLock lock(mutex_);
      changes_.Insert(key, clock_.Now(), 0);
    }
    status = RemoveFile(key);
  }
  if (!status.ok()) CountFailure(status);
}

void HotDirectory::CountFailure(const absl::Status& status) {
  if (absl::IsUnimplemented(status)) return;  // other users' own entries are had by calls alone
  uint64_t unreported;
  {
    const MutexLock lock(mutex_);
    failures_.Add();
    ++unreported_failures_;
    const SteadyTime now = clock_.Now();
    if (last_warning_ && now - *last_warning_ < kWarningInterval) return;
    last_warning_ = now;
    unreported = std::exchange(unreported_failures_, 0);
  }
  LogWarning("hot directory falls behind, clients ask the daemon instead",
             {{"path", path()}, {"failures", unreported}, {"error", Message(status)}});
}

HotDirectoryStats HotDirectory::Stats() const {
  const MutexLock lock(mutex_);
  HotDirectoryStats stats = counters_;
  stats.failures = failures_.value();
  stats.files = entries_.size();
  stats.bytes = entries_.bytes();
  return stats;
}

}  // namespace kiln
