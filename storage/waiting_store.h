// A store that cannot be opened yet.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "storage/base/mutex.h"
#include "storage/store.h"

namespace kiln {

// Stands in for a store whose disk was full when it was to be opened. Answers from what can be read
// of it meanwhile and refuses every change with RESOURCE_EXHAUSTED, as a store does whose disk
// fills up while it is open. Tries to open it again and again on a thread of its own; from the
// moment that this succeeds it passes everything on to the opened store.
//
// Thread-safe. Never blocks on an attempt, but the destructor waits for the one under way.
class WaitingStore final : public Store {
 public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<Store>>()>;

  // `meanwhile` is read until `open` returns a store. `reason` says why changes are refused, for a
  // person; what a later attempt says takes its place.
  WaitingStore(std::unique_ptr<Store> meanwhile, std::string reason, Open open,
               std::chrono::milliseconds interval);
  ~WaitingStore() override;

  BlobStore& blobs() override;
  ArtifactIndex& index() override;
  // Says what it waits for as `degraded`.
  StoreStats Stats() const override;
  void CountUses(std::span<const UseCount> uses) override;
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override;

  // Returns when the store is open. Only tests need to know.
  void WaitUntilOpen();

 private:
  class Blobs;
  class Index;

  // Whoever uses a store holds it: the one that was read meanwhile goes with its last reader.
  std::shared_ptr<Store> Readable() const;
  absl::StatusOr<std::shared_ptr<Store>> Writable() const;
  std::string Composition() const;
  void Run();
  void TryToOpen();

  const Open open_;
  const std::chrono::milliseconds interval_;
  const std::unique_ptr<Blobs> blobs_;
  const std::unique_ptr<Index> index_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Store> store_ KILN_GUARDED_BY(mutex_);
  std::string reason_ KILN_GUARDED_BY(mutex_);  // empty: it is open
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  // Last: it uses the others.
  std::thread thread_;
};

}  // namespace kiln
