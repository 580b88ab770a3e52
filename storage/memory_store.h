// A store in memory: the tier above the disk, and the reference of the conformance tests.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/lru_cache.h"
#include "storage/base/mutex.h"
#include "storage/store.h"
#include "storage/use_counter.h"

namespace kiln {

// Holds at most `bytes_max`: contents plus a flat charge per record and blob. Evicts the least
// recently used artifacts, pinned or not. A Put that exceeds the limit by itself is
// RESOURCE_EXHAUSTED.
//
// The index also takes a record without its blobs, since a lower tier may hold the blobs.
//
// A hit copies neither record nor bytes, and notes its use for TakeUses. Blocks on a short mutex
// only.
class MemoryStore final : public Store {
 public:
  // `clock` must outlive the store.
  MemoryStore(uint64_t bytes_max, const Clock& clock)
      : bytes_max_(bytes_max), clock_(clock), uses_(clock) {}

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override;
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override;
  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override;
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override;
  absl::Status Remove(const CallContext& context, const Digest& key) override;
  // Visits all records.
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override;
  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext& context,
                                                     const std::optional<Digest>& after,
                                                     size_t limit) override;
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override;
  std::string Describe() const override { return "memory"; }
  StoreStats Stats() const override;
  void CountUses(std::span<const UseCount> uses) override;
  // There are none.
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext&) override { return 0; }

  // A copy of what a lower tier holds: a record with some of its blobs, and a blob of a record that
  // is here. Takes no blob that no record here names.
  absl::Status KeepRecord(std::shared_ptr<const ArtifactRecord> record,
                          std::span<const Blob> blobs = {});
  void KeepBlob(const Blob& blob);

  // The hits since the last call, for a lower tier. They are due when a record had its first hit
  // here, when there are many, or after a while.
  std::vector<UseCount> TakeUses();
  bool AreUsesDue() const { return are_uses_due_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::shared_ptr<const ArtifactRecord> record;
    ArtifactUsage usage = {};
    bool had_hit = false;
  };
  struct NamedBlob {
    uint32_t references = 0;  // from stages of records
    std::optional<Blob> blob;
  };

  absl::Status Insert(Entry entry, std::span<const Blob> blobs) KILN_REQUIRES(mutex_);
  // Does nothing where no record names the blob.
  void Hold(const Blob& blob) KILN_REQUIRES(mutex_);
  void Shrink() KILN_REQUIRES(mutex_);
  // Removes the record, and the blobs that no other record names.
  bool Erase(const Digest& key) KILN_REQUIRES(mutex_);
  uint64_t Bytes() const KILN_REQUIRES(mutex_) { return records_.bytes() + blob_bytes_; }

  const uint64_t bytes_max_;
  const Clock& clock_;

  mutable Mutex mutex_;
  // Unbounded, since an eviction has to remove blobs.
  LruCache<Entry> records_ KILN_GUARDED_BY(mutex_){SIZE_MAX, SIZE_MAX};
  std::unordered_map<Digest, NamedBlob, DigestHash> blobs_ KILN_GUARDED_BY(mutex_);
  uint64_t blob_bytes_ KILN_GUARDED_BY(mutex_) = 0;
  uint64_t evicted_ KILN_GUARDED_BY(mutex_) = 0;
  UseCounter uses_ KILN_GUARDED_BY(mutex_);
  std::atomic<bool> are_uses_due_ = false;
};

}  // namespace kiln
