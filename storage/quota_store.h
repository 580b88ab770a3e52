// Keeps a store to a size, and a disk from filling up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"
#include "storage/forwarding_store.h"

namespace kiln {

struct QuotaOptions {
  // What records and blobs may occupy after compression. Files may be a good deal larger while
  // garbage is collected.
  uint64_t bytes_max = limits::kStoreBytesDefault;
  // Below this nothing is stored.
  uint64_t free_disk_bytes_min = limits::kFreeDiskBytesDefault;
  // On the file system to watch.
  std::string disk_path;
};

struct EvictionResult {
  uint64_t evicted = 0;
  uint64_t freed_bytes = 0;
};

// Before a put it evicts what is worth least, by ArtifactValue over random samples, until the new
// artifact fits; pinned artifacts never. RESOURCE_EXHAUSTED where that does not help, or while the
// disk has less than its floor free: Stats().degraded says so, and puts work again as soon as there
// is space.
//
// A blob that is put alone is checked against the disk's floor, not against the size; the next
// artifact's put is.
//
// Thread-safe. A put may block for the evictions it needs.
class QuotaStore final : public ForwardingStore {
 public:
  // `filesystem` and `clock` must outlive the store.
  QuotaStore(std::unique_ptr<Store> inner, QuotaOptions options, Filesystem& filesystem,
             const Clock& clock);
  ~QuotaStore() override;

  BlobStore& blobs() override;
  ArtifactIndex& index() override;
  StoreStats Stats() const override;

  // Evicts the least valuable until at most `bytes` are stored or all that is left is pinned.
  absl::StatusOr<EvictionResult> EvictDownTo(const CallContext& context, uint64_t bytes);

 private:
  class Blobs;
  class Index;

  // Empty where there is enough.
  std::string DiskShortage() const;
  absl::Status CheckDisk() const;
  absl::Status MakeRoom(const CallContext& context, uint64_t needed_bytes);
  absl::StatusOr<std::vector<FoundArtifact>> Sample(const CallContext& context)
      KILN_REQUIRES(mutex_);
  absl::StatusOr<uint64_t> EvictWorstOf(const CallContext& context,
                                        std::vector<FoundArtifact> sample, uint64_t bytes)
      KILN_REQUIRES(mutex_);

  const QuotaOptions options_;
  Filesystem& filesystem_;
  const Clock& clock_;

  // Held while evicting, and while pinning: nothing is pinned between being chosen and being
  // removed.
  Mutex mutex_;
  std::mt19937_64 random_ KILN_GUARDED_BY(mutex_);
  std::atomic<uint64_t> evicted_ = 0;
  const std::unique_ptr<Blobs> blobs_;
  const std::unique_ptr<Index> index_;
};

}  // namespace kiln
