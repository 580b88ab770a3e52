#include "storage/memory_store.h"

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/base/mutex.h"
#include "storage/state_interfaces.h"

namespace kiln {
namespace {

// What list node, map slots and allocator headers cost beside the content.
constexpr uint64_t kEntryBytes = 256;
constexpr uint64_t kStageBytes = 160;

}  // namespace

class MemoryStore::State {
 public:
  State(uint64_t bytes_max, const Clock& clock) : bytes_max_(bytes_max), clock_(clock) {}

  absl::StatusOr<FoundBlob> GetBlob(const Digest& digest) {
    MutexLock lock(mutex_);
    const auto it = blobs_.find(digest);
    if (it == blobs_.end()) return NotFound("no blob {} in memory", digest.ShortHex());
    Touch(it->second);
    return FoundBlob{*it->second->blob, Tier::kMemory};
  }

  absl::Status PutBlob(const Blob& blob) {
    MutexLock lock(mutex_);
    if (blobs_.contains(blob.digest())) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(CheckFits(kEntryBytes + blob.size_bytes()));
    AddBlob(blob);
    Shrink();
    return absl::OkStatus();
  }

  std::vector<Digest> FindMissing(std::span<const Digest> digests) {
    MutexLock lock(mutex_);
    std::vector<Digest> missing;
    for (const Digest& digest : digests) {
      if (!blobs_.contains(digest)) missing.push_back(digest);
    }
    return missing;
  }

  absl::StatusOr<FoundArtifact> GetRecord(const Digest& key) {
    MutexLock lock(mutex_);
    const auto it = records_.find(key);
    if (it == records_.end()) return NoRecord(key);
    Entry& entry = *it->second;
    ++entry.usage.hits;
    entry.usage.last_use_unix_ms = clock_.UnixMillis();
    Touch(it->second);
    return FoundArtifact{entry.record, entry.usage, Tier::kMemory};
  }

  absl::Status PutRecord(const ArtifactRecord& record, std::span<const Blob> blobs) {
    Entry entry = RecordEntry(record);
    uint64_t needed = entry.bytes;
    for (const Blob& blob : blobs) needed += kEntryBytes + blob.size_bytes();

    MutexLock lock(mutex_);
    KILN_RETURN_IF_ERROR(CheckFits(needed));
    const auto old = records_.find(record.key);
    entry.usage.last_use_unix_ms = clock_.UnixMillis();
    entry.usage.pinned = old != records_.end() && old->second->usage.pinned;
    Entry replaced;
    if (old != records_.end()) replaced = Take(records_, old);

    for (const Blob& blob : blobs) {
      if (!blobs_.contains(blob.digest())) AddBlob(blob);
    }
    // The new record's claims come before the old one's go: blobs in both of them stay.
    Claim(record, entry.usage.pinned);
    if (replaced.record != nullptr) Release(*replaced.record, replaced.usage.pinned);
    Add(records_, std::move(entry));
    Shrink();
    return absl::OkStatus();
  }

  absl::Status RemoveRecord(const Digest& key) {
    MutexLock lock(mutex_);
    const auto it = records_.find(key);
    if (it == records_.end()) return NoRecord(key);
    const Entry removed = Take(records_, it);
    Release(*removed.record, removed.usage.pinned);
    return absl::OkStatus();
  }

  std::vector<FoundArtifact> Scan(const std::optional<Digest>& after, size_t limit) {
    MutexLock lock(mutex_);
    std::vector<FoundArtifact> found;
    for (const auto& [key, entry] : records_) {
      if (!after || key > *after) {
        found.push_back({entry->record, entry->usage, Tier::kMemory});
      }
    }
    const size_t count = std::min(limit, found.size());
    std::partial_sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(count), found.end(),
                      [](const FoundArtifact& a, const FoundArtifact& b) {
                        return a.record->key < b.record->key;
                      });
    found.resize(count);
    return found;
  }

  absl::Status SetPinned(const Digest& key, bool pinned) {
    MutexLock lock(mutex_);
    const auto it = records_.find(key);
    if (it == records_.end()) return NoRecord(key);
    Entry& entry = *it->second;
    if (entry.usage.pinned == pinned) return absl::OkStatus();
    Claim(*entry.record, pinned);
    Release(*entry.record, !pinned);
    Move(it->second, entry.usage.pinned, pinned);
    entry.usage.pinned = pinned;
    return absl::OkStatus();
  }

  void CountUses(std::span<const UseCount> uses) {
    MutexLock lock(mutex_);
    for (const UseCount& use : uses) {
      const auto it = records_.find(use.key);
      if (it == records_.end()) continue;
      ArtifactUsage& usage = it->second->usage;
      usage.hits += use.uses;
      usage.last_use_unix_ms = std::max(usage.last_use_unix_ms, use.last_use_unix_ms);
    }
  }

  uint64_t CollectUnreferencedBlobs() {
    MutexLock lock(mutex_);
    uint64_t collected = 0;
    for (auto it = blobs_.begin(); it != blobs_.end();) {
      const auto next = std::next(it);
      if (!references_.contains(it->first)) {
        Take(blobs_, it);
        ++collected;
      }
      it = next;
    }
    return collected;
  }

  StoreStats Stats() const {
    MutexLock lock(mutex_);
    StoreStats stats;
    stats.artifacts = records_.size();
    stats.stored_bytes = evictable_bytes_ + pinned_bytes_;
    stats.stored_bytes_max = bytes_max_;
    stats.evicted = evicted_;
    return stats;
  }

 private:
  struct Entry {
    Digest id;
    std::shared_ptr<const ArtifactRecord> record;  // null: a blob
    std::optional<Blob> blob;
    ArtifactUsage usage;
    uint64_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  using EntryMap = std::unordered_map<Digest, Entries::iterator, DigestHash>;

  // How many records name a blob, whether or not it is held.
  struct References {
    uint32_t records = 0;
    uint32_t pinned_records = 0;
  };

  static Entry RecordEntry(const ArtifactRecord& record) {
    Entry entry;
    entry.id = record.key;
    entry.record = std::make_shared<const ArtifactRecord>(record);
    entry.bytes = kEntryBytes + record.document.size() + kStageBytes * record.stages.size();
    return entry;
  }

  static Entry BlobEntry(const Blob& blob) {
    Entry entry;
    entry.id = blob.digest();
    entry.blob = blob;
    entry.bytes = kEntryBytes + blob.size_bytes();
    return entry;
  }

  static absl::Status NoRecord(const Digest& key) {
    return NotFound("no artifact {} in memory", key.ShortHex());
  }

  absl::Status CheckFits(uint64_t needed) const KILN_REQUIRES(mutex_) {
    if (needed <= bytes_max_ - std::min(bytes_max_, pinned_bytes_)) return absl::OkStatus();
    return ResourceExhausted("{} bytes do not fit into memory's {} beside {} pinned", needed,
                             bytes_max_, pinned_bytes_);
  }

  bool IsPinned(const Entry& entry) const KILN_REQUIRES(mutex_) {
    if (entry.record != nullptr) return entry.usage.pinned;
    const auto it = references_.find(entry.id);
    return it != references_.end() && it->second.pinned_records > 0;
  }

  void Add(EntryMap& map, Entry entry) KILN_REQUIRES(mutex_) {
    const bool pinned = IsPinned(entry);
    (pinned ? pinned_bytes_ : evictable_bytes_) += entry.bytes;
    Entries& list = pinned ? pinned_ : evictable_;
    const Digest id = entry.id;
    list.push_front(std::move(entry));
    map.emplace(id, list.begin());
  }

  void AddBlob(const Blob& blob) KILN_REQUIRES(mutex_) { Add(blobs_, BlobEntry(blob)); }

  Entry Take(EntryMap& map, EntryMap::iterator it) KILN_REQUIRES(mutex_) {
    const Entries::iterator position = it->second;
    const bool pinned = IsPinned(*position);
    (pinned ? pinned_bytes_ : evictable_bytes_) -= position->bytes;
    map.erase(it);
    Entry entry = std::move(*position);
    (pinned ? pinned_ : evictable_).erase(position);
    return entry;
  }

  void Touch(Entries::iterator entry) KILN_REQUIRES(mutex_) {
    if (!IsPinned(*entry)) evictable_.splice(evictable_.begin(), evictable_, entry);
  }

  void Move(Entries::iterator entry, bool was_pinned, bool is_pinned) KILN_REQUIRES(mutex_) {
    if (was_pinned == is_pinned) return;
    (was_pinned ? pinned_bytes_ : evictable_bytes_) -= entry->bytes;
    (is_pinned ? pinned_bytes_ : evictable_bytes_) += entry->bytes;
    Entries& to = is_pinned ? pinned_ : evictable_;
    to.splice(to.begin(), was_pinned ? pinned_ : evictable_, entry);
  }

  void Claim(const ArtifactRecord& record, bool pinned) KILN_REQUIRES(mutex_) {
    for (const StageReference& stage : record.stages) {
      References& references = references_[stage.digest];
      const bool was_pinned = references.pinned_records > 0;
      ++references.records;
      if (pinned) ++references.pinned_records;
      const auto blob = blobs_.find(stage.digest);
      if (blob != blobs_.end()) {
        Move(blob->second, was_pinned, references.pinned_records > 0);
      }
    }
  }

  void Release(const ArtifactRecord& record, bool pinned) KILN_REQUIRES(mutex_) {
    for (const StageReference& stage : record.stages) {
      const auto references = references_.find(stage.digest);
      const auto blob = blobs_.find(stage.digest);
      const bool was_pinned = references->second.pinned_records > 0;
      if (pinned) --references->second.pinned_records;
      if (blob != blobs_.end()) {
        Move(blob->second, was_pinned, references->second.pinned_records > 0);
      }
      if (--references->second.records > 0) continue;
      references_.erase(references);
      if (blob != blobs_.end()) Take(blobs_, blob);
    }
  }

  void Shrink() KILN_REQUIRES(mutex_) {
    while (evictable_bytes_ + pinned_bytes_ > bytes_max_ && !evictable_.empty()) {
      const Entry& oldest = evictable_.back();
      if (oldest.record == nullptr) {
        Take(blobs_, blobs_.find(oldest.id));
        continue;
      }
      ++evicted_;
      const Entry removed = Take(records_, records_.find(oldest.id));
      Release(*removed.record, false);
    }
  }

  const uint64_t bytes_max_;
  const Clock& clock_;

  mutable Mutex mutex_;
  Entries evictable_ KILN_GUARDED_BY(mutex_);  // most recently used first
  Entries pinned_ KILN_GUARDED_BY(mutex_);
  EntryMap records_ KILN_GUARDED_BY(mutex_);
  EntryMap blobs_ KILN_GUARDED_BY(mutex_);
  std::unordered_map<Digest, References, DigestHash> references_ KILN_GUARDED_BY(mutex_);
  uint64_t evictable_bytes_ KILN_GUARDED_BY(mutex_) = 0;
  uint64_t pinned_bytes_ KILN_GUARDED_BY(mutex_) = 0;
  uint64_t evicted_ KILN_GUARDED_BY(mutex_) = 0;
};

MemoryStore::MemoryStore(uint64_t bytes_max, const Clock& clock)
    : state_(std::make_unique<State>(bytes_max, clock)),
      blobs_(std::make_unique<StateBlobStore<State>>(*state_, "memory")),
      index_(std::make_unique<StateArtifactIndex<State>>(*state_, "memory")) {}

MemoryStore::~MemoryStore() = default;

BlobStore& MemoryStore::blobs() { return *blobs_; }
ArtifactIndex& MemoryStore::index() { return *index_; }
StoreStats MemoryStore::Stats() const { return state_->Stats(); }
void MemoryStore::CountUses(std::span<const UseCount> uses) { state_->CountUses(uses); }

absl::StatusOr<uint64_t> MemoryStore::CollectUnreferencedBlobs(const CallContext&) {
  return state_->CollectUnreferencedBlobs();
}

}  // namespace kiln
