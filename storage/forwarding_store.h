// Base classes of decorators: they pass every call on to the inner store.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "storage/store.h"

namespace kiln {

class ForwardingIndex : public ArtifactIndex {
 public:
  // `inner` must outlive the index.
  explicit ForwardingIndex(ArtifactIndex& inner) : inner_(inner) {}

  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override {
    return inner_.Get(context, key);
  }
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    return inner_.Put(context, record, blobs);
  }
  absl::Status Remove(const CallContext& context, const Digest& key) override {
    return inner_.Remove(context, key);
  }
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    return inner_.Scan(context, after, limit);
  }
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override {
    return inner_.SetPinned(context, key, pinned);
  }
  std::string Describe() const override { return inner_.Describe(); }

 protected:
  ArtifactIndex& inner() { return inner_; }
  const ArtifactIndex& inner() const { return inner_; }

 private:
  ArtifactIndex& inner_;
};

class ForwardingBlobs : public BlobStore {
 public:
  // `inner` must outlive the blobs.
  explicit ForwardingBlobs(BlobStore& inner) : inner_(inner) {}

  absl::StatusOr<FoundBlob> Get(const CallContext& context, const Digest& digest) override {
    return inner_.Get(context, digest);
  }
  absl::Status Put(const CallContext& context, const Blob& blob) override {
    return inner_.Put(context, blob);
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override {
    return inner_.FindMissing(context, digests);
  }
  std::string Describe() const override { return inner_.Describe(); }

 protected:
  BlobStore& inner() { return inner_; }
  const BlobStore& inner() const { return inner_; }

 private:
  BlobStore& inner_;
};

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}

  BlobStore& blobs() override { return inner_->blobs(); }
  ArtifactIndex& index() override { return inner_->index(); }
  StoreStats Stats() const override { return inner_->Stats(); }
  void CountUses(std::span<const UseCount> uses) override { inner_->CountUses(uses); }
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override {
    return inner_->CollectUnreferencedBlobs(context);
  }

 protected:
  Store& inner() { return *inner_; }
  const Store& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Store> inner_;
};

}  // namespace kiln
