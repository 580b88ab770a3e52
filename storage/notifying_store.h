// Reports changes of a store to listeners.
#pragma once

#include <memory>
#include <vector>

#include "storage/forwarding_store.h"

namespace kiln {

// Reports each change after the inner store has acknowledged it, on the same thread, one change at
// a time per key. Stands right above the durable store, so listeners also hear of evictions.
class NotifyingStore final : public ForwardingStore {
 public:
  // The listeners must outlive the store.
  NotifyingStore(std::unique_ptr<Store> inner, std::vector<ArtifactListener*> listeners);
  ~NotifyingStore() override;

  // `listener` must outlive all later calls to the store.
  // REQUIRES: no other thread uses the store during the call.
  void AddListener(ArtifactListener& listener);

  ArtifactIndex& index() override;

 private:
  class Index;
  const std::unique_ptr<Index> index_;
};

}  // namespace kiln
