// Stands in for a store that cannot be opened yet.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "storage/base/mutex.h"
#include "storage/store.h"

namespace kiln {

// For a store whose disk is full at the start. Reads go to `meanwhile`, and every change is
// RESOURCE_EXHAUSTED, as for a store whose disk fills up later. A thread tries to open the store
// again and again. After the first success every call goes to the opened store.
//
// Thread-safe. No call waits for an attempt, but the destructor waits for the one under way.
class WaitingStore final : public Store {
 public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<Store>>()>;

  // Reads go to `meanwhile` until `open` returns a store. `reason` tells people why changes are
  // refused; the error of a later attempt replaces it.
  WaitingStore(std::unique_ptr<Store> meanwhile, std::string reason, Open open,
               std::chrono::milliseconds interval);
  ~WaitingStore() override;

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override;
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override;
  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override;
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override;
  absl::Status Remove(const CallContext& context, const Digest& key) override;
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override;
  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext& context,
                                                     const std::optional<Digest>& after,
                                                     size_t limit) override;
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override;
  // "waiting" until the store is open.
  std::string Describe() const override;
  // `degraded` is the reason.
  StoreStats Stats() const override;
  void CountUses(std::span<const UseCount> uses) override;
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override;

  // Returns when the store is open. For tests.
  void WaitUntilOpen();

 private:
  // Callers share the store, so the one that was read meanwhile lives as long as its last reader.
  std::shared_ptr<Store> Readable() const;
  absl::StatusOr<std::shared_ptr<Store>> Writable() const;
  void Run();
  void TryToOpen();

  const Open open_;
  const std::chrono::milliseconds interval_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Store> store_ KILN_GUARDED_BY(mutex_);
  std::string reason_ KILN_GUARDED_BY(mutex_);  // empty: it is open
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  // Last: the thread uses the other members.
  std::thread thread_;
};

}  // namespace kiln
