// The calls of AdminService that carry artifacts from one daemon to another. Both block.
#pragma once

#include <string>

#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/artifact_index.h"

namespace kiln {

// What an artifact takes in a bundle, before compression.
inline size_t BundledBytes(const ArtifactRecord& record) {
  size_t bytes = record.document.size();
  for (const StageReference& stage : record.stages) bytes += stage.size_bytes;
  return bytes;
}

// Errors: INVALID_ARGUMENT for what is no key, or too many; the store's.
absl::Status ExportArtifacts(const RpcDependencies& parts, const CallContext& context,
                             const admin::v1::ExportArtifactsRequest& request,
                             admin::v1::ExportArtifactsResponse& response);

// Errors: as the call's in admin_service.proto; DATA_LOSS for a signed block that is none.
absl::Status ImportBlock(const RpcDependencies& parts, const std::string& trusted_keys,
                         const CallContext& context, const admin::v1::ImportBlockRequest& request,
                         admin::v1::ImportBlockResponse& response);

}  // namespace kiln
