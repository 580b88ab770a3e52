// Limits the size of a store, and keeps the disk from filling up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "storage/background_task.h"
#include "storage/base/call_context.h"
#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"
#include "storage/forwarding_store.h"

namespace kiln {

struct QuotaOptions {
  // The size of records and blobs after compression. Files may be a good deal larger during garbage
  // collection.
  uint64_t bytes_max = limits::kStoreBytesDefault;
  // With less free, the store takes nothing.
  uint64_t free_disk_bytes_min = limits::kFreeDiskBytesDefault;
  // A path on the file system to watch.
  std::string disk_path;
  // Whether a key is leased. Only EvictDownTo evicts leased artifacts, and last. Must not call the
  // store. Null: no leases.
  std::function<bool(const Digest&)> is_leased = nullptr;
};

struct EvictionResult {
  uint64_t evicted = 0;
  uint64_t freed_bytes = 0;
};

// Evicts the artifacts of the lowest ArtifactValue, by random samples: on a thread of its own when
// the store is nearly full, and before a put that does not fit. Never evicts pinned artifacts, and
// leased ones for EvictDownTo alone. A put is RESOURCE_EXHAUSTED where evictions do not make enough
// room, or while the disk has less than free_disk_bytes_min free. Stats().degraded then says why,
// and puts work again once there is space.
//
// Thread-safe. A put may block for evictions.
class QuotaStore final : public ForwardingStore {
 public:
  // `filesystem` and `clock` must outlive the store.
  QuotaStore(std::unique_ptr<Store> inner, QuotaOptions options, Filesystem& filesystem,
             const Clock& clock);
  ~QuotaStore() override { stopping_.cancellation.Cancel(); }

  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override;
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override;
  std::string Describe() const override { return fmt::format("quota({})", inner().Describe()); }
  StoreStats Stats() const override;

  // Evicts until at most `bytes` are stored, all remaining artifacts are pinned, or the context is
  // cancelled. Leased artifacts come last.
  absl::StatusOr<EvictionResult> EvictDownTo(const CallContext& context, uint64_t bytes);

 private:
  // Why the disk has too little space. Empty: it has enough.
  std::string DiskShortage() const;
  absl::Status MakeRoom(const CallContext& context, uint64_t needed_bytes);
  // Until all remaining artifacts are pinned, or leased unless `leased_too`.
  absl::StatusOr<EvictionResult> Evict(const CallContext& context, uint64_t bytes, bool leased_too);
  absl::StatusOr<std::vector<FoundArtifact>> Sample(const CallContext& context)
      KILN_REQUIRES(mutex_);
  absl::StatusOr<uint64_t> EvictWorstOf(const CallContext& context,
                                        std::vector<FoundArtifact> sample, uint64_t bytes,
                                        bool leased_too) KILN_REQUIRES(mutex_);

  const QuotaOptions options_;
  const uint64_t slack_bytes_;  // with less room than that, the thread makes twice as much
  Filesystem& filesystem_;
  const Clock& clock_;

  // Held while a sample is evicted and during pinning, so no artifact is pinned between choice and
  // removal.
  Mutex mutex_;
  std::mt19937_64 random_ KILN_GUARDED_BY(mutex_);
  Counter evicted_{"evicted", "Artifacts evicted to make room."};

  Gauge bytes_gauge_{"store_bytes", "What the store occupies, after compression.",
                     [this] { return Stats().stored_bytes; }};
  Gauge bytes_max_gauge_{"store_bytes_max", "The most that the store may occupy.",
                         [this] { return options_.bytes_max; }};
  Gauge free_gauge_{"free_disk_bytes", "Free on the store's file system.",
                    [this] { return Stats().free_disk_bytes; }};
  Gauge free_min_gauge_{"free_disk_bytes_min", "With less free, nothing is stored.",
                        [this] { return options_.free_disk_bytes_min; }};
  Gauge quarantined_gauge_{"quarantined", "Damaged artifacts that were set aside.",
                           [this] { return Stats().quarantined; }};

  CallContext stopping_;  // cancelled by the destructor
  // Last: its thread stops before the other members are destroyed.
  BackgroundTask evictor_{{[this](const auto&) {
    (void)Evict(stopping_, options_.bytes_max - 2 * slack_bytes_, false);
  }}};
};

}  // namespace kiln
