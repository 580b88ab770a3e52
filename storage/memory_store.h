// A store in memory: the tier above the disk, and the reference that the others are tested against.
#pragma once

#include <memory>

#include "storage/base/clock.h"
#include "storage/store.h"

namespace kiln {

// Holds at most `bytes_max` (contents plus a flat charge per entry) and forgets what was used least
// recently, a record or a blob at a time; what a pinned record needs is kept. A Put that does not
// fit beside the pinned entries is RESOURCE_EXHAUSTED.
//
// Its index also takes a record without (all of) its blobs: above another tier the blobs may live
// there.
//
// A hit copies neither record nor bytes. Never blocks on anything but a short mutex.
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
