// Counts the user cache entries that were stored before the daemon started.
#pragma once

#include <optional>
#include <vector>

#include "storage/forwarding_store.h"
#include "storage/user_quota.h"

namespace kiln {

// Forwards to the inner index and reports every scanned record to the quota. Thread-safe.
class UserCacheScan final : public ForwardingIndex {
 public:
  // Both must outlive this index.
  UserCacheScan(ArtifactIndex& inner, UserQuota& quota) : ForwardingIndex(inner), quota_(quota) {}

  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    KILN_ASSIGN_OR_RETURN(auto found, inner().Scan(context, after, limit));
    for (const FoundArtifact& each : found) quota_.TakeStock(each);
    return found;
  }

 private:
  UserQuota& quota_;
};

}  // namespace kiln
