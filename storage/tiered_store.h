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

// The slow store is the truth: puts are acknowledged by it, scans read it, and its errors reach the
// caller. The fast store is a cache of records and final binaries. It learns from puts and from
// hits in the slow store, and the caller sees none of its failures. Now and then the fast store's
// uses are handed to the slow store.
//
// The slow store answers for pinned artifacts, since the fast store would have to keep them for
// ever.
//
// The slow store must report its evictions to this store as an ArtifactListener. Otherwise the fast
// store would serve artifacts that the next restart loses.
//
// Thread-safe. A hit in the fast store blocks only on the fast store.
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

  // Nothing to do: every put comes through this store.
  void OnPut(const ArtifactRecord&, std::span<const Blob>) override {}
  void OnRemove(const Digest& key) override;

  // Hands the counted uses to the slow store, whose evictions weigh them.
  void FlushUses();

  Store& fast() { return *fast_; }
  Store& slow() { return *slow_; }

 private:
  class Blobs;
  class Index;

  // Keys fall into stripes. The changes of a stripe happen one after the other, and each raises the
  // generation, so that a promotion which began before a change does not undo the change. OnRemove
  // raises the generation without the mutex, since it may run within a change of another key.
  // Therefore a promotion and a put check the generation again after they filled the fast store.
  struct Stripe {
    Mutex mutex;
    std::atomic<uint64_t> generation = 0;
    std::unordered_set<Digest, DigestHash> pinned KILN_GUARDED_BY(mutex);  // as far as known
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
