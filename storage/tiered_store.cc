#include "storage/tiered_store.h"

#include <algorithm>

namespace kiln {
namespace {

// The blob that every hit needs. Requests for earlier stages are rare and read the slow store.
std::span<const Blob> FinalBinary(const ArtifactRecord& record, std::span<const Blob> blobs) {
  if (record.stages.empty()) return {};
  const auto it = std::find_if(blobs.begin(), blobs.end(), [&](const Blob& blob) {
    return blob.digest() == record.stages.back().digest;
  });
  if (it == blobs.end()) return {};
  return blobs.subspan(static_cast<size_t>(it - blobs.begin()), 1);
}

}  // namespace

absl::StatusOr<FoundBlob> TieredStore::GetBlob(const CallContext& context, const Digest& digest) {
  auto found = memory_->GetBlob(context, digest);
  if (found.ok()) return found;
  found = slow_->GetBlob(context, digest);
  if (found.ok()) memory_->KeepBlob(found->blob);
  return found;
}

absl::StatusOr<std::vector<Digest>> TieredStore::FindMissing(const CallContext& context,
                                                             std::span<const Digest> digests) {
  return slow_->FindMissing(context, digests);
}

absl::StatusOr<FoundArtifact> TieredStore::Get(const CallContext& context, const Digest& key) {
  auto found = memory_->Get(context, key);
  if (found.ok()) {
    const UseCount use[] = {{key, 1, clock_.UnixMillis()}};
    slow_->CountUses(use);
    return found;
  }
  const uint64_t generation = StripeOf(key).generation;
  found = slow_->Get(context, key);
  if (found.ok()) Promote(*found, generation);
  return found;
}

void TieredStore::Promote(const FoundArtifact& found, uint64_t generation) {
  const Digest& key = found.record->key;
  Stripe& stripe = StripeOf(key);
  const MutexLock lock(stripe.mutex);
  if (stripe.generation != generation || !memory_->KeepRecord(found).ok()) return;
  if (stripe.generation != generation) (void)memory_->Remove({}, key);
}

absl::Status TieredStore::Put(const CallContext& context, const ArtifactRecord& record,
                              std::span<const Blob> blobs) {
  Stripe& stripe = StripeOf(record.key);
  const MutexLock lock(stripe.mutex);
  const uint64_t generation = stripe.generation;
  KILN_RETURN_IF_ERROR(slow_->Put(context, record, blobs));
  // The memory must not keep the old record where it did not take the new one.
  if (!memory_->Put(context, record, FinalBinary(record, blobs)).ok() ||
      stripe.generation != generation) {
    (void)memory_->Remove(context, record.key);
  }
  ++stripe.generation;
  return absl::OkStatus();
}

absl::Status TieredStore::Remove(const CallContext& context, const Digest& key) {
  Stripe& stripe = StripeOf(key);
  const MutexLock lock(stripe.mutex);
  const absl::Status removed = slow_->Remove(context, key);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  ++stripe.generation;
  // OK also where only the memory still had the record.
  return memory_->Remove(context, key).ok() ? absl::OkStatus() : removed;
}

absl::StatusOr<std::vector<FoundArtifact>> TieredStore::Scan(const CallContext& context,
                                                             const std::optional<Digest>& after,
                                                             size_t limit) {
  return slow_->Scan(context, after, limit);
}

absl::Status TieredStore::SetPinned(const CallContext& context, const Digest& key, bool pinned) {
  Stripe& stripe = StripeOf(key);
  const MutexLock lock(stripe.mutex);
  KILN_RETURN_IF_ERROR(slow_->SetPinned(context, key, pinned));
  ++stripe.generation;
  (void)memory_->SetPinned(context, key, pinned);
  return absl::OkStatus();
}

std::string TieredStore::Describe() const {
  return fmt::format("tiered({}, {})", memory_->Describe(), slow_->Describe());
}

void TieredStore::OnRemove(const Digest& key) {
  ++StripeOf(key).generation;
  (void)memory_->Remove({}, key);
}

void TieredStore::CountUses(std::span<const UseCount> uses) {
  memory_->CountUses(uses);
  slow_->CountUses(uses);
}

absl::StatusOr<uint64_t> TieredStore::CollectUnreferencedBlobs(const CallContext& context) {
  return slow_->CollectUnreferencedBlobs(context);
}

}  // namespace kiln
