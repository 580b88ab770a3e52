// A fast store over a slow one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_set>

#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/store.h"
#include "storage/use_counter.h"

namespace kiln {

// The slow store is the truth: a put is acknowledged when it has it, a scan shows what it has, its
// errors are the caller's. The fast one is a cache: it learns what was put or found, holds records
// and final binaries only, and none of its failures is ever the caller's. Uses that it answers
// reach the slow store now and then.
//
// A pinned artifact's record is always read from the slow store: the fast one would have to hold it
// for ever, or deny the pin.
//
// What the slow store removes by itself, to make room, has to be heard: it would otherwise be
// served until the fast store forgets it, and be gone for good with the next restart. Whoever
// assembles the two lets the slow one tell this one, as an ArtifactListener.
//
// Thread-safe. A hit in the fast store blocks no longer than that does.
class TieredStore final : public Store, public ArtifactListener {
 public:
  // REQUIRES: the index of `fast` takes records without their blobs, as MemoryStore's does. `clock`
  // must outlive the store.
  TieredStore(std::unique_ptr<Store> fast, std::unique_ptr<Store> slow, const Clock& clock);
  ~TieredStore() override;

  BlobStore& blobs() override;
  ArtifactIndex& index() override;
  StoreStats Stats() const override;
  void CountUses(std::span<const UseCount> uses) override;
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override;

  // Nothing to do: whatever is put comes through this store.
  void OnPut(const ArtifactRecord&, std::span<const Blob>) override {}
  void OnRemove(const Digest& key) override;

  // Hands the uses counted here down to the slow store, so that it can tell what is worth keeping.
  void FlushUses();

  Store& fast() { return *fast_; }
  Store& slow() { return *slow_; }

 private:
  class Blobs;
  class Index;

  // Keys fall into stripes. Changes of one stripe happen one after the other and raise its
  // generation, so that a promotion which began before a change does not undo it. A removal that is
  // heard raises it as well, but without the mutex, since it may come from within a change of
  // another key; whoever fills the fast store therefore looks once more when it is done.
  struct Stripe {
    Mutex mutex;
    std::atomic<uint64_t> generation = 0;
    std::unordered_set<Digest, DigestHash> pinned KILN_GUARDED_BY(mutex);  // as far as seen
  };
  Stripe& StripeOf(const Digest& key);

  void Promote(const CallContext& context, const FoundArtifact& found, uint64_t generation);

  const std::unique_ptr<Store> fast_;
  const std::unique_ptr<Store> slow_;
  UseCounter uses_;
  std::array<Stripe, 64> stripes_;
  const std::unique_ptr<Blobs> blobs_;
  const std::unique_ptr<Index> index_;
};

}  // namespace kiln
