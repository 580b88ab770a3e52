#include "storage/memory_store.h"

#include <algorithm>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/base/mutex.h"
#include "storage/state_interfaces.h"

namespace kiln {
namespace {

// The cost of list node, map slots and allocator headers per entry.
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
    // Claims before it releases, so that blobs of both records stay.
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
    auto it = after ? records_.upper_bound(*after) : records_.begin();
    for (; it != records_.end() && found.size() < limit; ++it) {
      found.push_back({it->second->record, it->second->usage, Tier::kMemory});
    }
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
    stats.stored_bytes = bytes_;
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

  // How many records name a blob. The store need not hold the blob.
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
    const uint64_t pinned = PinnedBytes();
    if (needed <= bytes_max_ - std::min(bytes_max_, pinned)) return absl::OkStatus();
    return ResourceExhausted("{} bytes do not fit into memory's {} beside {} pinned", needed,
                             bytes_max_, pinned);
  }

  // Walks all entries where there is a pin. A tier in memory has none.
  uint64_t PinnedBytes() const KILN_REQUIRES(mutex_) {
    uint64_t bytes = 0;
    if (pinned_records_ == 0) return bytes;
    for (const Entry& entry : entries_) bytes += IsPinned(entry) ? entry.bytes : 0;
    return bytes;
  }

  bool IsPinned(const Entry& entry) const KILN_REQUIRES(mutex_) {
    if (entry.record != nullptr) return entry.usage.pinned;
    const auto it = references_.find(entry.id);
    return it != references_.end() && it->second.pinned_records > 0;
  }

  template <typename Map>
  void Add(Map& map, Entry entry) KILN_REQUIRES(mutex_) {
    bytes_ += entry.bytes;
    entries_.push_front(std::move(entry));
    map.emplace(entries_.front().id, entries_.begin());
  }

  void AddBlob(const Blob& blob) KILN_REQUIRES(mutex_) { Add(blobs_, BlobEntry(blob)); }

  template <typename Map>
  Entry Take(Map& map, typename Map::iterator it) KILN_REQUIRES(mutex_) {
    const Entries::iterator position = it->second;
    map.erase(it);
    Entry entry = std::move(*position);
    entries_.erase(position);
    bytes_ -= entry.bytes;
    return entry;
  }

  void Touch(Entries::iterator entry) KILN_REQUIRES(mutex_) {
    entries_.splice(entries_.begin(), entries_, entry);
  }

  void Claim(const ArtifactRecord& record, bool pinned) KILN_REQUIRES(mutex_) {
    pinned_records_ += pinned ? 1 : 0;
    for (const StageReference& stage : record.stages) {
      References& references = references_[stage.digest];
      ++references.records;
      references.pinned_records += pinned ? 1 : 0;
    }
  }

  // Blobs that no record names any more go.
  void Release(const ArtifactRecord& record, bool pinned) KILN_REQUIRES(mutex_) {
    pinned_records_ -= pinned ? 1 : 0;
    for (const StageReference& stage : record.stages) {
      const auto references = references_.find(stage.digest);
      references->second.pinned_records -= pinned ? 1 : 0;
      if (--references->second.records > 0) continue;
      references_.erase(references);
      const auto blob = blobs_.find(stage.digest);
      if (blob != blobs_.end()) Take(blobs_, blob);
    }
  }

  void Shrink() KILN_REQUIRES(mutex_) {
    while (bytes_ > bytes_max_) {
      auto oldest = entries_.rbegin();
      while (oldest != entries_.rend() && IsPinned(*oldest)) ++oldest;
      if (oldest == entries_.rend()) return;
      if (oldest->record == nullptr) {
        Take(blobs_, blobs_.find(oldest->id));
        continue;
      }
      ++evicted_;
      const Entry removed = Take(records_, records_.find(oldest->id));
      Release(*removed.record, false);
    }
  }

  const uint64_t bytes_max_;
  const Clock& clock_;

  mutable Mutex mutex_;
  Entries entries_ KILN_GUARDED_BY(mutex_);  // most recently used first
  std::map<Digest, Entries::iterator> records_ KILN_GUARDED_BY(mutex_);
  std::unordered_map<Digest, Entries::iterator, DigestHash> blobs_ KILN_GUARDED_BY(mutex_);
  std::unordered_map<Digest, References, DigestHash> references_ KILN_GUARDED_BY(mutex_);
  uint64_t bytes_ KILN_GUARDED_BY(mutex_) = 0;
  uint64_t pinned_records_ KILN_GUARDED_BY(mutex_) = 0;
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
