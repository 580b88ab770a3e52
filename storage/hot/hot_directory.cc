#include "storage/hot/hot_directory.h"

#include <chrono>
#include <utility>

#include "storage/base/log.h"
#include "storage/base/mutex.h"
#include "storage/hot/artifact_file.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

constexpr auto kWarningInterval = std::chrono::minutes(1);

const Blob* FindBlob(std::span<const Blob> blobs, const Digest& digest) {
  for (const Blob& blob : blobs) {
    if (blob.digest() == digest) return &blob;
  }
  return nullptr;
}

absl::StatusOr<std::string> Encode(const ArtifactRecord& record, std::span<const Blob> blobs) {
  if (record.stages.empty()) return InvalidArgument("the artifact has no binary");
  const StageReference& last = record.stages.back();
  const Blob* binary = FindBlob(blobs, last.digest);
  if (binary == nullptr) return InvalidArgument("the {} is not among the blobs", last.stage);
  const NamedBlob stages[] = {{last.stage, *binary}};
  return EncodeArtifactFile(record.key, record.document, stages);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HotDirectory>> HotDirectory::Open(const std::string& path,
                                                                 const HotDirectoryOptions& options,
                                                                 const Clock& clock) {
  KILN_ASSIGN_OR_RETURN(HotFiles files, HotFiles::Open(path));
  std::unique_ptr<HotDirectory> directory(new HotDirectory(std::move(files), options, clock));
  KILN_RETURN_IF_ERROR(directory->Load());
  return directory;
}

absl::Status HotDirectory::Load() {
  KILN_ASSIGN_OR_RETURN(const auto files, files_.Load());
  const MutexLock lock(mutex_);
  for (const HotFile& file : files) {
    entries_.Insert(file.key, {file.binary, file.size_bytes}, file.size_bytes);
  }
  while (entries_.bytes() > options_.bytes_max || entries_.size() > options_.files_max) {
    KILN_RETURN_IF_ERROR(EvictOldest());
  }
  LogInfo("hot directory opened",
          {{"path", path()}, {"files", entries_.size()}, {"bytes", entries_.bytes()}});
  return absl::OkStatus();
}

void HotDirectory::OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) {
  if (IsUserCacheKey(record.key)) return;  // everybody may read what is published
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
  if (NoteUse(record.key)) return;
  const absl::Status status = Write(record, blobs, Source::kHit);
  if (!status.ok()) CountFailure(status);
}

absl::Status HotDirectory::Write(const ArtifactRecord& record, std::span<const Blob> blobs,
                                 Source source) {
  KILN_ASSIGN_OR_RETURN(const std::string content, Encode(record, blobs));
  if (content.size() > options_.bytes_max || options_.files_max == 0) {
    if (source == Source::kPut) Drop(record.key);
    return absl::OkStatus();
  }
  KILN_RETURN_IF_ERROR(LeaveFree(content.size()));
  KILN_ASSIGN_OR_RETURN(UnpublishedHotFile file, files_.Write(content));

  const MutexLock lock(mutex_);
  if (IsOutdatedHit(record.key, source)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(MakeRoom(record.key, content.size()));
  KILN_RETURN_IF_ERROR(files_.Publish(std::move(file), record.key));
  entries_.Insert(record.key, {record.stages.back().digest, content.size()}, content.size());
  ++counters_.published;
  if (source == Source::kPut) changes_.Insert(record.key, clock_.Now(), 0);
  return absl::OkStatus();
}

bool HotDirectory::IsOutdatedHit(const Digest& key, Source source) const {
  if (source == Source::kPut) return false;
  return entries_.Peek(key) != nullptr || HasJustChanged(key);
}

bool HotDirectory::HasJustChanged(const Digest& key) const {
  const SteadyTime* changed = changes_.Peek(key);
  return changed != nullptr && clock_.Now() - *changed < limits::kRecentChangesAge;
}

// Makes room within the bounds. The file of `key` counts as gone, but stays until it is replaced.
absl::Status HotDirectory::MakeRoom(const Digest& key, uint64_t size_bytes) {
  const Published* replaced = entries_.Find(key);
  const uint64_t freed_bytes = replaced == nullptr ? 0 : replaced->size_bytes;
  const size_t freed_files = replaced == nullptr ? 0 : 1;
  while (entries_.bytes() - freed_bytes + size_bytes > options_.bytes_max ||
         entries_.size() - freed_files + 1 > options_.files_max) {
    KILN_RETURN_IF_ERROR(EvictOldest());
  }
  return absl::OkStatus();
}

// Makes room on the file system, which has other users. Each call removes files only once, since a
// file that a process still maps frees nothing.
absl::Status HotDirectory::LeaveFree(uint64_t needed_bytes) {
  KILN_ASSIGN_OR_RETURN(uint64_t free, files_.FreeBytes());
  const uint64_t wanted = options_.free_bytes_min + needed_bytes;
  if (free >= wanted) return absl::OkStatus();
  {
    const MutexLock lock(mutex_);
    const uint64_t bytes_before = entries_.bytes();
    while (entries_.size() > 0 && bytes_before - entries_.bytes() < wanted - free) {
      KILN_RETURN_IF_ERROR(EvictOldest());
    }
  }
  KILN_ASSIGN_OR_RETURN(free, files_.FreeBytes());
  if (free >= wanted) return absl::OkStatus();
  return ResourceExhausted("{} has {} MiB free, and {} MiB are left to others: make room there",
                           path(), free / limits::kMiB, options_.free_bytes_min / limits::kMiB);
}

absl::Status HotDirectory::EvictOldest() {
  const Digest key = entries_.Oldest();
  ++counters_.evicted;
  return RemoveFile(key);
}

absl::Status HotDirectory::RemoveFile(const Digest& key) {
  if (!entries_.Erase(key)) return absl::OkStatus();
  return files_.Remove(key);
}

void HotDirectory::Drop(const Digest& key) {
  absl::Status status;
  {
    const MutexLock lock(mutex_);
    changes_.Insert(key, clock_.Now(), 0);
    status = RemoveFile(key);
  }
  if (!status.ok()) CountFailure(status);
}

void HotDirectory::DropUnchanged(const Digest& key, const Digest& binary) {
  absl::Status status;
  {
    const MutexLock lock(mutex_);
    const Published* now = entries_.Peek(key);
    if (now != nullptr && now->binary == binary && !HasJustChanged(key)) {
      status = RemoveFile(key);
    }
  }
  if (!status.ok()) CountFailure(status);
}

void HotDirectory::CountFailure(const absl::Status& status) {
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

std::unordered_map<Digest, Digest, DigestHash> HotDirectory::PublishedBinaries() const {
  const MutexLock lock(mutex_);
  std::unordered_map<Digest, Digest, DigestHash> binaries;
  entries_.ForEach([&](const Digest& key, const Published& published) {
    binaries.emplace(key, published.binary);
  });
  return binaries;
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
