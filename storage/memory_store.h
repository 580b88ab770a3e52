// A store in memory: the tier above the disk, and the reference of the conformance tests.
#pragma once

#include <memory>

#include "storage/base/clock.h"
#include "storage/store.h"

namespace kiln {

// Holds at most `bytes_max`: contents plus a flat charge per entry. Evicts the least recently used
// entries, single records or blobs, but no pinned record and none of its blobs. A Put that does not
// fit beside the pinned entries is RESOURCE_EXHAUSTED.
//
// The index also takes a record without its blobs, since a lower tier may hold the blobs.
//
// A hit copies neither record nor bytes. Blocks on a short mutex only.
class MemoryStore final : public Store {
 public:
  // `clock` must outlive the store.
  MemoryStore(uint64_t bytes_max, const Clock& clock);
  ~MemoryStore() override;

  BlobStore& blobs() override;
  ArtifactIndex& index() override;
  StoreStats Stats() const override;
  void CountUses(std::span<const UseCount> uses) override;
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override;

 private:
  class State;
  const std::unique_ptr<State> state_;
  const std::unique_ptr<BlobStore> blobs_;
  const std::unique_ptr<ArtifactIndex> index_;
};

}  // namespace kiln
