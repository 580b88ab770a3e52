// Tells listeners of what is put and removed.
#pragma once

#include <memory>
#include <vector>

#include "storage/forwarding_store.h"

namespace kiln {

// Tells after the inner store has acknowledged, on the same thread, one change at a time per key.
// Stands right above the durable store, so that evictions are heard as well. Otherwise as the inner
// store.
class NotifyingStore final : public ForwardingStore {
 public:
  // The listeners must outlive the store.
  NotifyingStore(std::unique_ptr<Store> inner, std::vector<ArtifactListener*> listeners);
  ~NotifyingStore() override;

  // One more, which must outlive what is done with the store from now on. REQUIRES: nobody changes
  // the store meanwhile.
  void AddListener(ArtifactListener& listener);

  ArtifactIndex& index() override;

 private:
  class Index;
  const std::unique_ptr<Index> index_;
};

}  // namespace kiln
