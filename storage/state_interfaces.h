// BlobStore and ArtifactIndex for a store that keeps both in one state object.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/blob_store.h"

namespace kiln {

// Calls GetBlob, PutBlob and FindMissing of `State`. `state` must outlive the store.
template <typename State>
class StateBlobStore final : public BlobStore {
 public:
  StateBlobStore(State& state, std::string name) : state_(state), name_(std::move(name)) {}

  absl::StatusOr<FoundBlob> Get(const CallContext&, const Digest& digest) override {
    return state_.GetBlob(digest);
  }
  absl::Status Put(const CallContext&, const Blob& blob) override { return state_.PutBlob(blob); }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext&,
                                                  std::span<const Digest> digests) override {
    return state_.FindMissing(digests);
  }
  std::string Describe() const override { return name_; }

 private:
  State& state_;
  const std::string name_;
};

// Calls GetRecord, PutRecord, RemoveRecord, Scan and SetPinned of `State`.
template <typename State>
class StateArtifactIndex final : public ArtifactIndex {
 public:
  StateArtifactIndex(State& state, std::string name) : state_(state), name_(std::move(name)) {}

  absl::StatusOr<FoundArtifact> Get(const CallContext&, const Digest& key) override {
    return state_.GetRecord(key);
  }
  absl::Status Put(const CallContext&, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    return state_.PutRecord(record, blobs);
  }
  absl::Status Remove(const CallContext&, const Digest& key) override {
    return state_.RemoveRecord(key);
  }
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext&,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    return state_.Scan(after, limit);
  }
  absl::Status SetPinned(const CallContext&, const Digest& key, bool pinned) override {
    return state_.SetPinned(key, pinned);
  }
  std::string Describe() const override { return name_; }

 private:
  State& state_;
  const std::string name_;
};

}  // namespace kiln
