// A compile request, as operators ask for it to repeat it.
#include <optional>

#include "daemon/kernel/request_document.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/admin_calls.h"
#include "daemon/rpc/artifact_catalog.h"
#include "storage/base/limits.h"

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

absl::Status FindStored(const RpcDependencies& parts, const CallContext& context,
                        const std::string& key_prefix, admin::v1::GetRequestResponse& response) {
  KILN_ASSIGN_OR_RETURN(const FoundArtifact found, FindByPrefix(parts.index, context, key_prefix));
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

}  // namespace

absl::Status FindRequest(const RpcDependencies& parts, const AdminActions& actions,
                         const CallContext& context, const std::string& key_prefix,
                         admin::v1::GetRequestResponse& response) {
  const absl::StatusOr<Digest> key = Digest::FromHex(key_prefix);
  if (key.ok() && FindRemembered(actions, *key, response)) return absl::OkStatus();
  return FindStored(parts, context, key_prefix, response);
}

}  // namespace kiln
