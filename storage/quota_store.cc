#include "storage/quota_store.h"

#include <algorithm>
#include <utility>

#include "storage/artifact_value.h"
#include "storage/base/log.h"
#include "storage/base/mutex.h"

namespace kiln {
namespace {

// The lowest eighth of a sample of this size belongs to the lowest quarter of the store with near
// certainty.
constexpr size_t kSampleSize = 64;
constexpr size_t kEvictedPerSample = kSampleSize / 8;
// The largest cost of a record or a blob beside its content.
constexpr uint64_t kRowBytes = 512;
// Gives up after this many samples without an artifact to evict.
constexpr int kFruitlessSamplesMax = 16;

}  // namespace

QuotaStore::QuotaStore(std::unique_ptr<Store> store, QuotaOptions options, Filesystem& filesystem,
                       const Clock& clock)
    : ForwardingStore(std::move(store)),
      options_(std::move(options)),
      slack_bytes_(options_.bytes_max / 50),
      filesystem_(filesystem),
      clock_(clock),
      random_(static_cast<uint64_t>(clock.UnixMillis())) {}

absl::Status QuotaStore::Put(const CallContext& context, const ArtifactRecord& record,
                             std::span<const Blob> blobs) {
  if (const std::string shortage = DiskShortage(); !shortage.empty()) {
    return ResourceExhausted("not stored: {}", shortage);
  }
  uint64_t needed = record.document.size() + kRowBytes;
  for (const Blob& blob : blobs) needed += blob.size_bytes() + kRowBytes;
  const Blob* const binary = FindFinalBinary(record, blobs);
  if (binary != nullptr && binary->size_bytes() <= kInlinedBinaryBytesMax) {
    needed += binary->size_bytes();
  }
  KILN_RETURN_IF_ERROR(MakeRoom(context, needed));
  return inner().Put(context, record, blobs);
}

absl::Status QuotaStore::SetPinned(const CallContext& context, const Digest& key, bool pinned) {
  const MutexLock lock(mutex_);
  return inner().SetPinned(context, key, pinned);
}

StoreStats QuotaStore::Stats() const {
  StoreStats stats = inner().Stats();
  stats.stored_bytes_max = options_.bytes_max;
  const uint64_t quiet_bytes_max = options_.bytes_max - slack_bytes_;
  stats.room_bytes = quiet_bytes_max - std::min(quiet_bytes_max, stats.stored_bytes);
  stats.free_disk_bytes = filesystem_.FreeBytes(options_.disk_path).value_or(0);
  if (stats.degraded.empty()) stats.degraded = DiskShortage();
  stats.evicted += evicted_.value();
  return stats;
}

std::string QuotaStore::DiskShortage() const {
  const auto free = filesystem_.FreeBytes(options_.disk_path);
  // Unknown free space is no shortage: the inner store notices a full disk.
  if (!free.ok() || *free >= options_.free_disk_bytes_min) return "";
  return fmt::format("only {} MiB are free under {}, the floor is {} MiB", *free / limits::kMiB,
                     options_.disk_path, options_.free_disk_bytes_min / limits::kMiB);
}

absl::Status QuotaStore::MakeRoom(const CallContext& context, uint64_t needed_bytes) {
  if (needed_bytes > options_.bytes_max) {
    return ResourceExhausted("an artifact of {} bytes, the store's limit is {}", needed_bytes,
                             options_.bytes_max);
  }
  const uint64_t stored_max = options_.bytes_max - needed_bytes;
  uint64_t stored = inner().Stats().stored_bytes;
  if (stored + slack_bytes_ > stored_max) evictor_.Request();
  if (stored <= stored_max) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(Evict(context, stored_max, false).status());
  stored = inner().Stats().stored_bytes;
  if (stored <= stored_max) return absl::OkStatus();
  return ResourceExhausted(
      "{} bytes do not fit into the store's limit of {} beside {} that are pinned or "
      "warmed: unpin some, evict some with 'kiln evict --to SIZE', or raise the limit",
      needed_bytes, options_.bytes_max, stored);
}

absl::StatusOr<std::vector<FoundArtifact>> QuotaStore::Sample(const CallContext& context) {
  // Keys are digests, so neighbours of a random key are a random sample.
  std::string place;
  while (place.size() < Digest::kSizeBytes) {
    const uint64_t word = random_();
    place.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  KILN_ASSIGN_OR_RETURN(const Digest from, Digest::FromBytes(place));
  KILN_ASSIGN_OR_RETURN(auto sample, inner().Scan(context, from, kSampleSize));
  if (sample.size() < kSampleSize) {
    // Wraps around at the last key. In a small store the sample may contain an artifact twice.
    KILN_ASSIGN_OR_RETURN(auto more,
                          inner().Scan(context, std::nullopt, kSampleSize - sample.size()));
    sample.insert(sample.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  }
  return sample;
}

absl::StatusOr<uint64_t> QuotaStore::EvictWorstOf(const CallContext& context,
                                                  std::vector<FoundArtifact> sample, uint64_t bytes,
                                                  bool leased_too) {
  std::erase_if(sample, [&](const FoundArtifact& found) {
    const bool is_leased = options_.is_leased && options_.is_leased(found.record->key);
    return found.usage.pinned || (is_leased && !leased_too);
  });
  std::vector<std::pair<double, Digest>> ranked;
  for (const FoundArtifact& found : sample) {
    ranked.emplace_back(ArtifactValue(*found.record, found.usage, clock_.UnixMillis()),
                        found.record->key);
  }
  std::sort(ranked.begin(), ranked.end());
  uint64_t evicted = 0;
  for (const auto& [value, key] : ranked) {
    if (evicted == kEvictedPerSample || inner().Stats().stored_bytes <= bytes) break;
    const absl::Status removed = inner().Remove(context, key);
    if (removed.ok()) ++evicted;
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return evicted;
}

absl::StatusOr<EvictionResult> QuotaStore::EvictDownTo(const CallContext& context, uint64_t bytes) {
  KILN_ASSIGN_OR_RETURN(EvictionResult result, Evict(context, bytes, false));
  if (inner().Stats().stored_bytes <= bytes) return result;
  KILN_ASSIGN_OR_RETURN(const EvictionResult leased, Evict(context, bytes, true));
  return EvictionResult{result.evicted + leased.evicted, result.freed_bytes + leased.freed_bytes};
}

absl::StatusOr<EvictionResult> QuotaStore::Evict(const CallContext& context, uint64_t bytes,
                                                 bool leased_too) {
  const uint64_t before = inner().Stats().stored_bytes;
  EvictionResult result;
  int fruitless = 0;
  while (inner().Stats().stored_bytes > bytes && fruitless < kFruitlessSamplesMax &&
         !context.cancellation.IsCancelled()) {
    const MutexLock lock(mutex_);
    KILN_ASSIGN_OR_RETURN(auto sample, Sample(context));
    KILN_ASSIGN_OR_RETURN(const uint64_t evicted,
                          EvictWorstOf(context, std::move(sample), bytes, leased_too));
    fruitless = evicted == 0 ? fruitless + 1 : 0;
    result.evicted += evicted;
  }
  // Samples contain no blobs without an artifact.
  if (inner().Stats().stored_bytes > bytes) {
    KILN_RETURN_IF_ERROR(inner().CollectUnreferencedBlobs(context).status());
  }
  evicted_.Add(result.evicted);
  const uint64_t after = inner().Stats().stored_bytes;
  result.freed_bytes = before - std::min(before, after);
  LogDebug("evicted artifacts", {{"count", result.evicted}, {"bytes", result.freed_bytes}});
  return result;
}

}  // namespace kiln
