#include "storage/rocks_store.h"

#include <utility>

#include "storage/rocks_state.h"

namespace kiln {

class RocksStore::Blobs final : public BlobStore {
 public:
  explicit Blobs(RocksState& state) : state_(state) {}

  absl::StatusOr<FoundBlob> Get(const CallContext&, const Digest& digest) override {
    KILN_ASSIGN_OR_RETURN(Blob blob, state_.GetBlob(digest));
    return FoundBlob{std::move(blob), Tier::kDisk};
  }
  absl::Status Put(const CallContext&, const Blob& blob) override { return state_.PutBlob(blob); }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext&,
                                                  std::span<const Digest> digests) override {
    return state_.FindMissing(digests);
  }
  std::string Describe() const override { return "rocks"; }

 private:
  RocksState& state_;
};

class RocksStore::Index final : public ArtifactIndex {
 public:
  explicit Index(RocksState& state) : state_(state) {}

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
  std::string Describe() const override { return "rocks"; }

 private:
  RocksState& state_;
};

RocksStore::RocksStore(std::unique_ptr<RocksState> state, std::string path, Filesystem& filesystem)
    : state_(std::move(state)),
      path_(std::move(path)),
      filesystem_(filesystem),
      blobs_(std::make_unique<Blobs>(*state_)),
      index_(std::make_unique<Index>(*state_)) {}

RocksStore::~RocksStore() = default;

BlobStore& RocksStore::blobs() { return *blobs_; }
ArtifactIndex& RocksStore::index() { return *index_; }
void RocksStore::CountUses(std::span<const UseCount> uses) { state_->CountUses(uses); }
void RocksStore::WaitUntilIdle() { state_->WaitUntilIdle(); }

absl::StatusOr<uint64_t> RocksStore::CollectUnreferencedBlobs(const CallContext&) {
  return state_->CollectUnreferencedBlobs();
}

StoreStats RocksStore::Stats() const {
  const TotalsRow totals = state_->Totals();
  StoreStats stats;
  stats.artifacts = totals.artifacts;
  stats.stored_bytes = totals.stored_bytes;
  stats.quarantined = totals.quarantined;
  stats.free_disk_bytes = filesystem_.FreeBytes(path_).value_or(0);
  stats.disk_bytes = state_->database().FileBytes();
  stats.degraded = state_->database().Degraded();
  return stats;
}

}  // namespace kiln
