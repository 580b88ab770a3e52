#include "storage/notifying_store.h"

#include <array>
#include <utility>

#include "storage/base/mutex.h"

namespace kiln {

class NotifyingStore::Index final : public ForwardingIndex {
 public:
  Index(ArtifactIndex& inner, std::vector<ArtifactListener*> listeners)
      : ForwardingIndex(inner), listeners_(std::move(listeners)) {}

  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    MutexLock lock(StripeOf(record.key));
    KILN_RETURN_IF_ERROR(inner().Put(context, record, blobs));
    for (ArtifactListener* listener : listeners_) listener->OnPut(record, blobs);
    return absl::OkStatus();
  }

  absl::Status Remove(const CallContext& context, const Digest& key) override {
    MutexLock lock(StripeOf(key));
    const absl::Status removed = inner().Remove(context, key);
    // A listener may still hold an artifact that the store has lost.
    if (removed.ok() || absl::IsNotFound(removed)) {
      for (ArtifactListener* listener : listeners_) listener->OnRemove(key);
    }
    return removed;
  }

  void AddListener(ArtifactListener& listener) { listeners_.push_back(&listener); }

 private:
  Mutex& StripeOf(const Digest& key) { return stripes_[DigestHash()(key) % stripes_.size()]; }

  std::vector<ArtifactListener*> listeners_;
  std::array<Mutex, 64> stripes_;
};

NotifyingStore::NotifyingStore(std::unique_ptr<Store> store,
                               std::vector<ArtifactListener*> listeners)
    : ForwardingStore(std::move(store)),
      index_(std::make_unique<Index>(inner().index(), std::move(listeners))) {}

NotifyingStore::~NotifyingStore() = default;

ArtifactIndex& NotifyingStore::index() { return *index_; }
void NotifyingStore::AddListener(ArtifactListener& listener) { index_->AddListener(listener); }

}  // namespace kiln
