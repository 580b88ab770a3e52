#include "storage/tiered_store.h"

namespace kiln {
absl::StatusOr<FoundBlob> TieredStore::GetBlob(const CallContext& context, const Digest& digest) {
  auto found = memory_->GetBlob(context, digest);
  if (found.ok()) return found;
  found = inner().GetBlob(context, digest);
  if (found.ok()) memory_->KeepBlob(found->blob);
  return found;
}

absl::StatusOr<FoundArtifact> TieredStore::Get(const CallContext& context, const Digest& key) {
  auto found = memory_->Get(context, key);
  if (found.ok()) {
    if (memory_->AreUsesDue()) ReportUses();
    return found;
  }
  const uint64_t generation = StripeOf(key).generation;
  found = inner().Get(context, key);
  if (found.ok()) Promote(*found, generation);
  return found;
}

void TieredStore::ReportUses() {
  const std::vector<UseCount> uses = memory_->TakeUses();
  if (uses.empty()) return;
  inner().CountUses(uses);
  if (on_uses_) on_uses_(uses);
}

absl::StatusOr<std::vector<FoundArtifact>> TieredStore::Scan(const CallContext& context,
                                                             const std::optional<Digest>& after,
                                                             size_t limit) {
  ReportUses();
  return inner().Scan(context, after, limit);
}

void TieredStore::Promote(const FoundArtifact& found, uint64_t generation) {
  const Digest& key = found.record->key;
  Stripe& stripe = StripeOf(key);
  const MutexLock lock(stripe.mutex);
  const Blob* const binary = found.binary ? &*found.binary : nullptr;
  if (stripe.generation != generation ||
      !memory_->KeepRecord(found.record, {binary, binary == nullptr ? size_t{0} : 1}).ok()) {
    return;
  }
  if (stripe.generation != generation) (void)memory_->Remove({}, key);
}

absl::Status TieredStore::Put(const CallContext& context, const ArtifactRecord& record,
                              std::span<const Blob> blobs) {
  Stripe& stripe = StripeOf(record.key);
  const MutexLock lock(stripe.mutex);
  const uint64_t generation = stripe.generation;
  KILN_RETURN_IF_ERROR(inner().Put(context, record, blobs));
  // Every hit needs the final binary. Requests for earlier stages are rare and read the slow store.
  const Blob* const binary = FindFinalBinary(record, blobs);
  // The memory must not keep the old record where it did not take the new one.
  if (!memory_->Put(context, record, {binary, binary == nullptr ? size_t{0} : 1}).ok() ||
      stripe.generation != generation) {
    (void)memory_->Remove(context, record.key);
  }
  ++stripe.generation;
  return absl::OkStatus();
}

absl::Status TieredStore::Remove(const CallContext& context, const Digest& key) {
  Stripe& stripe = StripeOf(key);
  const MutexLock lock(stripe.mutex);
  const absl::Status removed = inner().Remove(context, key);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  ++stripe.generation;
  // OK also where only the memory still had the record.
  return memory_->Remove(context, key).ok() ? absl::OkStatus() : removed;
}

std::string TieredStore::Describe() const {
  return fmt::format("tiered({}, {})", memory_->Describe(), inner().Describe());
}

void TieredStore::OnRemove(const Digest& key) {
  ++StripeOf(key).generation;
  (void)memory_->Remove({}, key);
}

}  // namespace kiln
