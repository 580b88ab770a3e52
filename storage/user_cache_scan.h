// Tells a ledger of what was stored before it, while somebody else reads the whole index.
#pragma once

#include <optional>
#include <vector>

#include "storage/forwarding_store.h"
#include "storage/user_quota.h"

namespace kiln {

// As the inner index; the ledger is told of all that a scan finds. Thread-safe.
class UserCacheScan final : public ForwardingIndex {
 public:
  // Both must outlive it.
  UserCacheScan(ArtifactIndex& inner, UserQuota& ledger)
      : ForwardingIndex(inner), ledger_(ledger) {}

  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    KILN_ASSIGN_OR_RETURN(auto found, inner().Scan(context, after, limit));
    for (const FoundArtifact& each : found) ledger_.TakeStock(each);
    return found;
  }

 private:
  UserQuota& ledger_;
};

}  // namespace kiln
