// The base class of decorators: it passes every call on to the inner store.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "storage/store.h"

namespace kiln {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override {
    return inner_->GetBlob(context, digest);
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override {
    return inner_->FindMissing(context, digests);
  }
  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override {
    return inner_->Get(context, key);
  }
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    return inner_->Put(context, record, blobs);
  }
  absl::Status Remove(const CallContext& context, const Digest& key) override {
    return inner_->Remove(context, key);
  }
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    return inner_->Scan(context, after, limit);
  }
  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext& context,
                                                     const std::optional<Digest>& after,
                                                     size_t limit) override {
    return inner_->ScanUsages(context, after, limit);
  }
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override {
    return inner_->SetPinned(context, key, pinned);
  }
  std::string Describe() const override { return inner_->Describe(); }
  StoreStats Stats() const override { return inner_->Stats(); }
  void CountUses(std::span<const UseCount> uses) override { inner_->CountUses(uses); }
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override {
    return inner_->CollectUnreferencedBlobs(context);
  }

 protected:
  Store& inner() { return *inner_; }
  const Store& inner() const { return *inner_; }
  // For the destructor of a decorator that listens to the inner store, whose threads may call it.
  void DestroyInner() { inner_.reset(); }

 private:
  std::unique_ptr<Store> inner_;
};

}  // namespace kiln
