// A store in memory over a slow one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "storage/base/mutex.h"
#include "storage/forwarding_store.h"
#include "storage/memory_store.h"

namespace kiln {

// The slow store is the truth: puts are acknowledged by it, scans read it, and its errors reach the
// caller. The memory is a cache of records and final binaries. It learns from puts and from hits in
// the slow store, and the caller sees none of its failures. The slow store hears of every use, at
// the latest when this store is listed or destroyed.
//
// The slow store must report its evictions to this store as an ArtifactListener. Otherwise the
// memory would serve artifacts that the next restart loses.
//
// Thread-safe. A hit in memory blocks on short mutexes only.
class TieredStore final : public ForwardingStore, public ArtifactListener {
 public:
  // Hears of hits in memory, which are second uses or later ones. Must not block.
  using OnUses = std::function<void(const std::vector<UseCount>&)>;

  TieredStore(std::unique_ptr<MemoryStore> memory, std::unique_ptr<Store> slow,
              OnUses on_uses = nullptr)
      : ForwardingStore(std::move(slow)),
        memory_(std::move(memory)),
        on_uses_(std::move(on_uses)) {}
  ~TieredStore() override {
    inner().CountUses(memory_->TakeUses());
    DestroyInner();
  }

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override;
  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override;
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override;
  absl::Status Remove(const CallContext& context, const Digest& key) override;
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override;
  std::string Describe() const override;

  // Nothing to do: every put comes through this store.
  void OnPut(const ArtifactRecord&, std::span<const Blob>) override {}
  void OnRemove(const Digest& key) override;

 private:
  // Keys fall into stripes. The changes of a stripe happen one after the other, and each raises the
  // generation, so that a promotion which began before a change does not undo the change. OnRemove
  // raises the generation without the mutex, since it may run within a change of another key.
  // Therefore a promotion and a put check the generation again after they filled the memory.
  struct Stripe {
    Mutex mutex;
    std::atomic<uint64_t> generation = 0;
  };
  Stripe& StripeOf(const Digest& key) { return stripes_[DigestHash()(key) % stripes_.size()]; }

  void Promote(const FoundArtifact& found, uint64_t generation);
  void ReportUses();

  const std::unique_ptr<MemoryStore> memory_;
  const OnUses on_uses_;
  std::array<Stripe, 64> stripes_;
};

}  // namespace kiln
