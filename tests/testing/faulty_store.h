// A store that fails when told to.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "storage/forwarding_store.h"

namespace kiln {

// What a FaultyStore does instead of working, and what it was asked. Outlives the store.
// Thread-safe.
class Faults {
 public:
  // From now on every Get, Put or Remove says this; OK: works again.
  void FailGets(absl::Status status) {
    std::lock_guard lock(mutex_);
    gets_ = std::move(status);
  }
  void FailPuts(absl::Status status) {
    std::lock_guard lock(mutex_);
    puts_ = std::move(status);
  }

  void FailRemoves(absl::Status status) {
    std::lock_guard lock(mutex_);
    removes_ = std::move(status);
  }

  absl::Status NextGet() {
    std::lock_guard lock(mutex_);
    ++get_count_;
    return gets_;
  }
  absl::Status NextPut() {
    std::lock_guard lock(mutex_);
    return puts_;
  }
  absl::Status NextRemove() {
    std::lock_guard lock(mutex_);
    return removes_;
  }
  // Gets of records and blobs so far.
  int get_count() const {
    std::lock_guard lock(mutex_);
    return get_count_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status gets_;
  absl::Status puts_;
  absl::Status removes_;
  int get_count_ = 0;
};

class FaultyStore final : public ForwardingStore {
 public:
  FaultyStore(std::unique_ptr<Store> store, Faults& faults)
      : ForwardingStore(std::move(store)), faults_(faults) {}

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override {
    KILN_RETURN_IF_ERROR(faults_.NextGet());
    return inner().GetBlob(context, digest);
  }
  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override {
    KILN_RETURN_IF_ERROR(faults_.NextGet());
    return inner().Get(context, key);
  }
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    KILN_RETURN_IF_ERROR(faults_.NextPut());
    return inner().Put(context, record, blobs);
  }
  absl::Status Remove(const CallContext& context, const Digest& key) override {
    KILN_RETURN_IF_ERROR(faults_.NextRemove());
    return inner().Remove(context, key);
  }

 private:
  Faults& faults_;
};

}  // namespace kiln
