#include "storage/rocks/rocks_store.h"

#include <utility>

#include "storage/rocks/rocks_state.h"
#include "storage/state_interfaces.h"

namespace kiln {

RocksStore::RocksStore(std::unique_ptr<RocksState> state, std::string path, Filesystem& filesystem)
    : state_(std::move(state)),
      path_(std::move(path)),
      filesystem_(filesystem),
      blobs_(std::make_unique<StateBlobStore<RocksState>>(*state_, "rocks")),
      index_(std::make_unique<StateArtifactIndex<RocksState>>(*state_, "rocks")) {}

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
