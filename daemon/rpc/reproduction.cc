// Compile requests, as people ask for them to repeat them.
#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/kernel/request_document.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/admin_calls.h"
#include "daemon/rpc/artifact_catalog.h"
#include "daemon/rpc/kernel_calls.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

bool FindRemembered(const AdminActions& actions, const Digest& key,
                    admin::v1::GetRequestResponse& response) {
  const std::optional<RememberedRequest> remembered = actions.negatives->FindRequest(key);
  if (!remembered) return false;
  response.set_key(std::string(key.Bytes()));
  response.set_request(WriteRequest(*remembered->job));
  response.set_crash(ToUtf8(remembered->crash));
  if (remembered->failure != nullptr) {
    ToProto(*remembered->failure, key, limits::kDiagnosticsBytesMax,
            *response.mutable_diagnostics());
  }
  return true;
}

absl::Status ShowRequest(const RpcDependencies& parts, const CallContext& context,
                         const FoundArtifact& found, admin::v1::GetRequestResponse& response) {
  KILN_RETURN_IF_ERROR(CheckIsArtifact(found.record->key));
  const std::vector<StageReference>& stages = found.record->stages;
  const StageReference* request = FindStage(stages, kRequestStage);
  if (request == nullptr) {
    return FailedPrecondition(
        "artifact {} was stored by a kilnd that did not keep requests yet; compile it once more "
        "with --cache refresh",
        found.record->key.ShortHex());
  }
  KILN_ASSIGN_OR_RETURN(const FoundBlob blob, parts.blobs.GetBlob(context, request->digest));
  response.set_key(std::string(found.record->key.Bytes()));
  response.set_request(std::string(blob.blob.bytes()));
  for (const StageReference& stage : stages) {
    if (stage.stage != kRequestStage) ToProto(stage, *response.add_stages());
  }
  return absl::OkStatus();
}

bool IsInTime(const FoundArtifact& found, const admin::v1::ListRequestsRequest& asked) {
  return std::max(found.usage.last_use_unix_ms, found.record->created_unix_ms) >=
         asked.since_unix_ms();
}

// Whether an artifact is asked for. A user is not shown a source that the user has not sent.
bool IsAskedFor(const RpcDependencies& parts, const FoundArtifact& found,
                const admin::v1::ListRequestsRequest& asked) {
  const ArtifactUsage& usage = found.usage;
  const Digest& key = found.record->key;
  const bool is_jobs = asked.job().empty() || usage.job == asked.job();
  if (!asked.has_uid()) return is_jobs || parts.job_keys->HasAsked(asked.job(), key);
  const bool is_users = usage.uid == asked.uid();
  return (is_users && is_jobs) || (parts.job_keys->HasAsked(asked.uid(), asked.job(), key) &&
                                   (is_users || parts.job_keys->HasSent(asked.uid(), key)));
}

// Nothing where the request is not there: the artifact was stored before requests were kept, or is
// damaged, or was evicted just now.
std::optional<admin::v1::StoredRequest> ReadRequest(const RpcDependencies& parts,
                                                    const CallContext& context,
                                                    const FoundArtifact& found) {
  const StageReference* stage = FindStage(found.record->stages, kRequestStage);
  if (stage == nullptr) return std::nullopt;
  const auto blob = parts.blobs.GetBlob(context, stage->digest);
  if (!blob.ok()) return std::nullopt;
  admin::v1::StoredRequest stored;
  stored.set_key(std::string(found.record->key.Bytes()));
  stored.set_request(std::string(blob->blob.bytes()));
  stored.set_compile_micros(found.record->compile_micros);
  stored.set_hits(found.usage.hits);
  return stored;
}

// Adds what is asked for of an artifact or of an entry of an own namespace, and returns its size.
size_t AddFound(const RpcDependencies& parts, const CallContext& context,
                const FoundArtifact& found, const admin::v1::ListRequestsRequest& asked,
                admin::v1::ListRequestsResponse& response) {
  if (!IsInTime(found, asked)) return 0;
  if (IsUserCacheKey(found.record->key)) {
    const bool is_jobs =
        asked.job().empty() || found.usage.job == asked.job() ||
        parts.job_keys->HasAsked(context.principal.uid, asked.job(), found.record->key);
    auto entry = is_jobs ? OwnEntryOf(parts, context, *found.record) : std::nullopt;
    if (!entry) return 0;
    *response.add_own_entries() = *std::move(entry);
    return response.own_entries().rbegin()->ByteSizeLong();
  }
  if (asked.only_own_entries() || !IsAskedFor(parts, found, asked)) return 0;
  auto stored = ReadRequest(parts, context, found);
  if (!stored) return 0;
  *response.add_requests() = *std::move(stored);
  return response.requests().rbegin()->request().size();
}

bool IsFull(const admin::v1::ListRequestsResponse& response, size_t bytes) {
  return static_cast<size_t>(response.requests_size() + response.own_entries_size()) ==
             limits::kRequestPageMax ||
         bytes >= limits::kRequestPageBytes;
}

}  // namespace

absl::Status ListRequests(const RpcDependencies& parts, const CallContext& context,
                          const admin::v1::ListRequestsRequest& request,
                          admin::v1::ListRequestsResponse& response) {
  std::optional<Digest> after;
  if (!request.after().empty()) {
    const auto parsed = Digest::FromBytes(request.after());
    if (!parsed.ok()) return Annotate(parsed.status(), "after");
    after = *parsed;
  }
  size_t bytes = 0;
  for (size_t seen = 0; seen < limits::kListScanMax; seen += limits::kListPageMax) {
    KILN_ASSIGN_OR_RETURN(const auto page, parts.index.Scan(context, after, limits::kListPageMax));
    for (const FoundArtifact& found : page) {
      KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
      after = found.record->key;
      bytes += AddFound(parts, context, found, request, response);
      if (!IsFull(response, bytes)) continue;
      response.set_next(std::string(after->Bytes()));
      return absl::OkStatus();
    }
    if (page.size() < limits::kListPageMax) return absl::OkStatus();
  }
  response.set_next(std::string(after->Bytes()));
  return absl::OkStatus();
}

absl::Status FindRequest(const RpcDependencies& parts, const AdminActions& actions,
                         const CallContext& context, const std::string& key_prefix,
                         admin::v1::GetRequestResponse& response) {
  const absl::StatusOr<Digest> key = Digest::FromHex(key_prefix);
  if (key.ok() && FindRemembered(actions, *key, response)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const FoundArtifact found, FindByPrefix(parts.index, context, key_prefix));
  return ShowRequest(parts, context, found, response);
}

absl::Status FindOwnRequest(const RpcDependencies& parts, const CallContext& context, uid_t uid,
                            const std::string& key_prefix,
                            admin::v1::GetRequestResponse& response) {
  const auto found = FindByPrefix(parts.index, context, key_prefix);
  if (!found.ok() || found->usage.uid != uid) {
    return NotFound("no artifact with the key {} was compiled for you first", key_prefix);
  }
  return ShowRequest(parts, context, *found, response);
}

}  // namespace kiln
