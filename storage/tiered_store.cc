#include "storage/tiered_store.h"

#include <algorithm>
#include <utility>

#include "storage/base/mutex.h"

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

class TieredStore::Blobs final : public BlobStore {
 public:
  explicit Blobs(TieredStore& store) : fast_(store.fast_->blobs()), slow_(store.slow_->blobs()) {}

  absl::StatusOr<FoundBlob> Get(const CallContext& context, const Digest& digest) override {
    auto found = fast_.Get(context, digest);
    if (found.ok()) return found;
    found = slow_.Get(context, digest);
    if (found.ok()) (void)fast_.Put(context, found->blob);
    return found;
  }
  absl::Status Put(const CallContext& context, const Blob& blob) override {
    KILN_RETURN_IF_ERROR(slow_.Put(context, blob));
    (void)fast_.Put(context, blob);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override {
    return slow_.FindMissing(context, digests);
  }
  std::string Describe() const override {
    return fmt::format("tiered({}, {})", fast_.Describe(), slow_.Describe());
  }

 private:
  BlobStore& fast_;
  BlobStore& slow_;
};

class TieredStore::Index final : public ArtifactIndex {
 public:
  explicit Index(TieredStore& store)
      : store_(store), fast_(store.fast_->index()), slow_(store.slow_->index()) {}

  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override {
    auto found = fast_.Get(context, key);
    if (found.ok()) {
      if (store_.uses_.Count(key)) store_.FlushUses();
      return found;
    }
    const uint64_t generation = store_.StripeOf(key).generation;
    found = slow_.Get(context, key);
    if (found.ok()) store_.Promote(context, *found, generation);
    return found;
  }

  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    // The put may evict artifacts, so the slow store has to know the latest uses.
    store_.FlushUses();
    Stripe& stripe = store_.StripeOf(record.key);
    MutexLock lock(stripe.mutex);
    const uint64_t generation = stripe.generation;
    KILN_RETURN_IF_ERROR(slow_.Put(context, record, blobs));
    // The fast store must not keep the old record where it did not take the new one.
    if (stripe.pinned.contains(record.key) ||
        !fast_.Put(context, record, FinalBinary(record, blobs)).ok() ||
        stripe.generation != generation) {
      (void)fast_.Remove(context, record.key);
    }
    ++stripe.generation;
    return absl::OkStatus();
  }

  absl::Status Remove(const CallContext& context, const Digest& key) override {
    Stripe& stripe = store_.StripeOf(key);
    MutexLock lock(stripe.mutex);
    const absl::Status removed = slow_.Remove(context, key);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    ++stripe.generation;
    stripe.pinned.erase(key);
    store_.uses_.Forget(key);
    // OK also where only the fast store still had the record.
    return fast_.Remove(context, key).ok() ? absl::OkStatus() : removed;
  }

  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    store_.FlushUses();
    return slow_.Scan(context, after, limit);
  }

  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override {
    Stripe& stripe = store_.StripeOf(key);
    MutexLock lock(stripe.mutex);
    KILN_RETURN_IF_ERROR(slow_.SetPinned(context, key, pinned));
    ++stripe.generation;
    if (pinned) {
      stripe.pinned.insert(key);
      (void)fast_.Remove(context, key);
    } else {
      stripe.pinned.erase(key);
    }
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return fmt::format("tiered({}, {})", fast_.Describe(), slow_.Describe());
  }

 private:
  TieredStore& store_;
  ArtifactIndex& fast_;
  ArtifactIndex& slow_;
};

TieredStore::TieredStore(std::unique_ptr<Store> fast, std::unique_ptr<Store> slow,
                         const Clock& clock)
    : fast_(std::move(fast)),
      slow_(std::move(slow)),
      uses_(clock),
      blobs_(std::make_unique<Blobs>(*this)),
      index_(std::make_unique<Index>(*this)) {}

TieredStore::~TieredStore() { FlushUses(); }

BlobStore& TieredStore::blobs() { return *blobs_; }
ArtifactIndex& TieredStore::index() { return *index_; }
StoreStats TieredStore::Stats() const { return slow_->Stats(); }

TieredStore::Stripe& TieredStore::StripeOf(const Digest& key) {
  return stripes_[DigestHash()(key) % stripes_.size()];
}

void TieredStore::Promote(const CallContext& context, const FoundArtifact& found,
                          uint64_t generation) {
  const Digest& key = found.record->key;
  Stripe& stripe = StripeOf(key);
  MutexLock lock(stripe.mutex);
  if (stripe.generation != generation) return;
  if (found.usage.pinned) {
    stripe.pinned.insert(key);
    return;
  }
  if (!fast_->index().Put(context, *found.record, {}).ok()) return;
  if (stripe.generation != generation) {
    (void)fast_->index().Remove(context, key);
    return;
  }
  const UseCount so_far[] = {{key, found.usage.hits, found.usage.last_use_unix_ms}};
  fast_->CountUses(so_far);
}

void TieredStore::OnRemove(const Digest& key) {
  ++StripeOf(key).generation;
  uses_.Forget(key);
  (void)fast_->index().Remove({}, key);
}

void TieredStore::FlushUses() {
  const std::vector<UseCount> uses = uses_.Drain();
  if (!uses.empty()) slow_->CountUses(uses);
}

void TieredStore::CountUses(std::span<const UseCount> uses) {
  fast_->CountUses(uses);
  slow_->CountUses(uses);
}

absl::StatusOr<uint64_t> TieredStore::CollectUnreferencedBlobs(const CallContext& context) {
  (void)fast_->CollectUnreferencedBlobs(context);
  return slow_->CollectUnreferencedBlobs(context);
}

}  // namespace kiln
