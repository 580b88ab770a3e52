// Reports changes of a store to listeners.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "storage/base/mutex.h"
#include "storage/forwarding_store.h"

namespace kiln {

// Reports each change after the inner store has acknowledged it, on the same thread, one change at
// a time per key. Stands right above the durable store, so listeners also hear of evictions.
class NotifyingStore final : public ForwardingStore {
 public:
  // The listeners must outlive the store.
  NotifyingStore(std::unique_ptr<Store> inner, std::vector<ArtifactListener*> listeners)
      : ForwardingStore(std::move(inner)), listeners_(std::move(listeners)) {}

  // `listener` must outlive all later calls to the store.
  // REQUIRES: no other thread uses the store during the call.
  void AddListener(ArtifactListener& listener) { listeners_.push_back(&listener); }

  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    const MutexLock lock(StripeOf(record.key));
    KILN_RETURN_IF_ERROR(inner().Put(context, record, blobs));
    for (ArtifactListener* listener : listeners_) listener->OnPut(record, blobs);
    return absl::OkStatus();
  }

  absl::Status Remove(const CallContext& context, const Digest& key) override {
    const MutexLock lock(StripeOf(key));
    const absl::Status removed = inner().Remove(context, key);
    // A listener may still hold an artifact that the store has lost.
    if (removed.ok() || absl::IsNotFound(removed)) {
      for (ArtifactListener* listener : listeners_) listener->OnRemove(key);
    }
    return removed;
  }

 private:
  Mutex& StripeOf(const Digest& key) { return stripes_[DigestHash()(key) % stripes_.size()]; }

  std::vector<ArtifactListener*> listeners_;
  std::array<Mutex, 64> stripes_;
};

}  // namespace kiln
