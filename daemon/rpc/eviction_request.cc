// Evict, as operators ask for it.
#include <algorithm>
#include <optional>
#include <string>

#include "daemon/rpc/admin_calls.h"
#include "daemon/rpc/artifact_catalog.h"
#include "daemon/rpc/kernel_calls.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"

namespace kiln {
namespace {

absl::Status EvictNamed(ArtifactIndex& index, const AdminActions& actions,
                        const CallContext& context, const std::string& bytes, bool force,
                        admin::v1::EvictResponse& response) {
  KILN_ASSIGN_OR_RETURN(const Digest key, Digest::FromBytes(bytes));
  const bool was_quarantined = actions.negatives->LiftCrash(key);
  if (was_quarantined) response.set_released(response.released() + 1);
  // A scan, because a look-up would count as a use.
  KILN_ASSIGN_OR_RETURN(const ArtifactPage page,
                        ReadPage(index, context, {key, key}, std::nullopt, 1));
  if (page.artifacts.empty()) {
    if (!was_quarantined) response.add_not_found(bytes);
    return absl::OkStatus();
  }
  if (page.artifacts.front().usage.pinned && !force) {
    response.add_kept_pinned(bytes);
    return absl::OkStatus();
  }
  const absl::Status removed = index.Remove(context, key);
  if (absl::IsNotFound(removed)) {
    response.add_not_found(bytes);
    return absl::OkStatus();
  }
  KILN_RETURN_IF_ERROR(removed);
  response.set_evicted(response.evicted() + 1);
  return absl::OkStatus();
}

absl::Status EvictAll(ArtifactIndex& index, const CallContext& context,
                      admin::v1::EvictResponse& response) {
  std::optional<Digest> after;
  while (true) {
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    KILN_ASSIGN_OR_RETURN(const std::vector<FoundArtifact> page,
                          index.Scan(context, after, limits::kListPageMax));
    if (page.empty()) return absl::OkStatus();
    after = page.back().record->key;
    for (const FoundArtifact& found : page) {
      if (found.usage.pinned) continue;
      const absl::Status removed = index.Remove(context, found.record->key);
      if (absl::IsNotFound(removed)) continue;
      KILN_RETURN_IF_ERROR(removed);
      response.set_evicted(response.evicted() + 1);
    }
  }
}

absl::Status Evict(ArtifactIndex& index, const AdminActions& actions, const CallContext& context,
                   const admin::v1::EvictRequest& request, admin::v1::EvictResponse& response) {
  for (int i = 0; i < request.keys_size(); ++i) {
    const absl::Status status =
        EvictNamed(index, actions, context, request.keys(i), request.force(), response);
    if (!status.ok()) return Annotate(status, fmt::format("keys[{}]", i));
  }
  if (request.all()) {
    response.set_released(response.released() + actions.negatives->LiftAllCrashes());
    KILN_RETURN_IF_ERROR(EvictAll(index, context, response));
  }
  if (request.has_target_bytes()) {
    KILN_ASSIGN_OR_RETURN(const uint64_t evicted,
                          actions.evict_to(context, request.target_bytes()));
    response.set_evicted(response.evicted() + evicted);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EvictRequested(ArtifactIndex& index, const AdminActions& actions,
                            const CallContext& context, const admin::v1::EvictRequest& request,
                            admin::v1::EvictResponse& response) {
  if (request.keys_size() == 0 && !request.all() && !request.has_target_bytes()) {
    return InvalidArgument("nothing to evict: give keys, all, or target_bytes");
  }
  KILN_RETURN_IF_ERROR(CheckCount("keys", request.keys_size(), limits::kLookupKeysMax));
  const auto before = ReadMetric("store_bytes");
  KILN_RETURN_IF_ERROR(Evict(index, actions, context, request, response));
  const auto after = ReadMetric("store_bytes");
  response.set_freed_bytes(static_cast<uint64_t>(std::max(0.0, before - after)));
  return absl::OkStatus();
}

}  // namespace kiln
