#include "storage/memory_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// The cost of list node, map slots and allocator headers.
constexpr uint64_t kEntryBytes = 256;
constexpr uint64_t kStageBytes = 160;
// A document and what a reader makes of it: values, and their encoding for clients.
constexpr uint64_t kDocumentCopies = 3;

uint64_t RecordBytes(const ArtifactRecord& record) {
  return kEntryBytes + kDocumentCopies * record.document.size() +
         kStageBytes * record.stages.size();
}
uint64_t BlobBytes(const Blob& blob) { return kEntryBytes + blob.size_bytes(); }

absl::Status NoRecord(const Digest& key) {
  return NotFound("no artifact {} in memory", key.ShortHex());
}

}  // namespace

absl::StatusOr<FoundBlob> MemoryStore::GetBlob(const CallContext&, const Digest& digest) {
  const MutexLock lock(mutex_);
  const auto found = blobs_.find(digest);
  if (found != blobs_.end() && found->second.blob) {
    return FoundBlob{*found->second.blob, Tier::kMemory};
  }
  return NotFound("no blob {} in memory", digest.ShortHex());
}

absl::StatusOr<std::vector<Digest>> MemoryStore::FindMissing(const CallContext& context,
                                                             std::span<const Digest> digests) {
  std::vector<Digest> missing;
  for (const Digest& digest : digests) {
    if (!GetBlob(context, digest).ok()) missing.push_back(digest);
  }
  return missing;
}

absl::StatusOr<FoundArtifact> MemoryStore::Get(const CallContext& context, const Digest& key) {
  const MutexLock lock(mutex_);
  Entry* const entry = records_.Find(key);
  if (entry == nullptr) return NoRecord(key);
  entry->usage.hits += UsesOfHit(context);
  entry->usage.last_use_unix_ms = clock_.UnixMillis();
  const bool is_due = uses_.Add({key, UsesOfHit(context), entry->usage.last_use_unix_ms});
  if (!std::exchange(entry->had_hit, true) || is_due) are_uses_due_ = true;
  return FoundArtifact{entry->record, {}, Tier::kMemory};
}

std::vector<UseCount> MemoryStore::TakeUses() {
  const MutexLock lock(mutex_);
  are_uses_due_ = false;
  return uses_.Drain();
}

absl::Status MemoryStore::Put(const CallContext& context, const ArtifactRecord& record,
                              std::span<const Blob> blobs) {
  Entry entry{std::make_shared<const ArtifactRecord>(record), FirstUsage(context, record)};
  const MutexLock lock(mutex_);
  if (const Entry* const replaced = records_.Peek(record.key)) entry.usage = replaced->usage;
  entry.usage.last_use_unix_ms = clock_.UnixMillis();
  return Insert(std::move(entry), blobs);
}

absl::Status MemoryStore::KeepRecord(std::shared_ptr<const ArtifactRecord> record,
                                     std::span<const Blob> blobs) {
  const MutexLock lock(mutex_);
  return Insert({std::move(record)}, blobs);
}

void MemoryStore::KeepBlob(const Blob& blob) {
  const MutexLock lock(mutex_);
  if (BlobBytes(blob) > bytes_max_) return;
  Hold(blob);
  Shrink();
}

absl::Status MemoryStore::Insert(Entry entry, std::span<const Blob> blobs) {
  const std::shared_ptr<const ArtifactRecord> record = entry.record;
  uint64_t needed = RecordBytes(*record);
  for (const Blob& blob : blobs) needed += BlobBytes(blob);
  if (needed > bytes_max_) {
    return ResourceExhausted("{} bytes do not fit into memory's {}", needed, bytes_max_);
  }
  // Counts the new references first, so that blobs of both records stay.
  for (const StageReference& stage : record->stages) ++blobs_[stage.digest].references;
  Erase(record->key);
  records_.Insert(record->key, std::move(entry), RecordBytes(*record));
  for (const Blob& blob : blobs) Hold(blob);
  Shrink();
  return absl::OkStatus();
}

void MemoryStore::Hold(const Blob& blob) {
  const auto found = blobs_.find(blob.digest());
  if (found == blobs_.end() || found->second.blob) return;
  found->second.blob = blob;
  blob_bytes_ += BlobBytes(blob);
}

void MemoryStore::Shrink() {
  while (Bytes() > bytes_max_ && records_.size() > 0) {
    Erase(Digest(records_.Oldest()));
    ++evicted_;
  }
}

bool MemoryStore::Erase(const Digest& key) {
  const Entry* const entry = records_.Peek(key);
  if (entry == nullptr) return false;
  for (const StageReference& stage : entry->record->stages) {
    const auto named = blobs_.find(stage.digest);
    if (--named->second.references > 0) continue;
    if (named->second.blob) blob_bytes_ -= BlobBytes(*named->second.blob);
    blobs_.erase(named);
  }
  return records_.Erase(key);
}

absl::Status MemoryStore::Remove(const CallContext&, const Digest& key) {
  const MutexLock lock(mutex_);
  return Erase(key) ? absl::OkStatus() : NoRecord(key);
}

absl::StatusOr<std::vector<FoundArtifact>> MemoryStore::Scan(const CallContext&,
                                                             const std::optional<Digest>& after,
                                                             size_t limit) {
  std::map<Digest, FoundArtifact> in_order;
  const MutexLock lock(mutex_);
  records_.ForEach([&](const Digest& key, const Entry& entry) {
    if (after && key <= *after) return;
    in_order.emplace(key, FoundArtifact{entry.record, entry.usage, Tier::kMemory});
    if (in_order.size() > limit) in_order.erase(std::prev(in_order.end()));
  });
  std::vector<FoundArtifact> found;
  for (auto& [key, each] : in_order) found.push_back(std::move(each));
  return found;
}

absl::StatusOr<std::vector<FoundUsage>> MemoryStore::ScanUsages(const CallContext& context,
                                                                const std::optional<Digest>& after,
                                                                size_t limit) {
  KILN_ASSIGN_OR_RETURN(const auto artifacts, Scan(context, after, limit));
  std::vector<FoundUsage> found;
  for (const FoundArtifact& artifact : artifacts) {
    found.push_back({artifact.record->key, artifact.usage});
  }
  return found;
}

absl::Status MemoryStore::SetPinned(const CallContext&, const Digest& key, bool pinned) {
  const MutexLock lock(mutex_);
  Entry* const entry = records_.Find(key);
  if (entry == nullptr) return NoRecord(key);
  entry->usage.pinned = pinned;
  return absl::OkStatus();
}

void MemoryStore::CountUses(std::span<const UseCount> uses) {
  const MutexLock lock(mutex_);
  for (const UseCount& use : uses) {
    Entry* const entry = records_.Find(use.key);
    if (entry == nullptr) continue;
    entry->usage.hits += use.uses;
    entry->usage.last_use_unix_ms = std::max(entry->usage.last_use_unix_ms, use.last_use_unix_ms);
  }
}

StoreStats MemoryStore::Stats() const {
  const MutexLock lock(mutex_);
  StoreStats stats;
  stats.artifacts = records_.size();
  stats.stored_bytes = Bytes();
  stats.stored_bytes_max = bytes_max_;
  stats.evicted = evicted_;
  return stats;
}

}  // namespace kiln
