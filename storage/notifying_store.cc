#include "storage/notifying_store.h"

namespace kiln {

absl::Status NotifyingStore::Put(const CallContext& context, const ArtifactRecord& record,
                                 std::span<const Blob> blobs) {
  const MutexLock lock(StripeOf(record.key));
  KILN_RETURN_IF_ERROR(inner().Put(context, record, blobs));
  for (ArtifactListener* listener : listeners_) listener->OnPut(record, blobs);
  return absl::OkStatus();
}

absl::Status NotifyingStore::Remove(const CallContext& context, const Digest& key) {
  const MutexLock lock(StripeOf(key));
  const absl::Status removed = inner().Remove(context, key);
  // A listener may still hold an artifact that the store has lost.
  if (removed.ok() || absl::IsNotFound(removed)) {
    for (ArtifactListener* listener : listeners_) listener->OnRemove(key);
  }
  return removed;
}

}  // namespace kiln
