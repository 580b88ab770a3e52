#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/bundle_calls.h"
#include "daemon/rpc/reply_bytes.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/base/mutex.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/signature.h"
#include "storage/bundle/zstd_frame.h"
#include "storage/lookup_without_use.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

using admin::v1::ImportedArtifact;

absl::Status CheckSignature(const std::string& trusted_keys,
                            const admin::v1::ImportBlockRequest& request) {
  if (trusted_keys.empty()) {
    return FailedPrecondition(
        "no key is trusted: without HOME kilnd has no place for trusted_keys.pem; start it with "
        "--config FILE, and put the keys beside that file");
  }
  KILN_ASSIGN_OR_RETURN(const TrustedKeys keys, TrustedKeys::Read(trusted_keys));
  // Once an import, not once a block.
  if (!keys.bad_lines().empty() && request.number() == 0) {
    LogWarning("the trusted keys file has lines that are not Ed25519 public keys",
               {{"path", trusted_keys}, {"where", keys.bad_lines()}});
  }
  if (request.signature() == std::string(kSignatureBytes, '\0')) {
    return PermissionDenied(
        "the bundle is not signed: export it with --sign-with KEY.pem, whose public key is in {}",
        trusted_keys);
  }
  const std::string bytes = SignedBytes(request.bundle(), request.number(), request.frame());
  if (keys.HaveSigned(bytes, request.signature())) return absl::OkStatus();
  return PermissionDenied(
      "no key in {} matches the bundle's signature: the bundle is damaged, or its maker's public "
      "key is missing{}",
      trusted_keys,
      keys.bad_lines().empty()
          ? ""
          : fmt::format(" (no Ed25519 public key stands at {})", keys.bad_lines()));
}

// What the store is to keep.
struct Incoming {
  ArtifactRecord record;
  std::vector<Blob> blobs;
  Provenance provenance;
};

// Notes in `told` what people are told of it.
absl::StatusOr<Incoming> Read(const v1::BundleArtifact& bundled, ImportedArtifact& told) {
  Artifact artifact;
  KILN_ASSIGN_OR_RETURN(artifact.key, Digest::FromBytes(bundled.key()));
  if (IsUserCacheKey(artifact.key)) return InvalidArgument("it is a user's own entry");
  KILN_ASSIGN_OR_RETURN(static_cast<ArtifactDocument&>(artifact),
                        ParseDocument(bundled.document()));
  told.set_name(ToUtf8(artifact.metadata.name));
  ToProto(artifact.metadata.target, *told.mutable_target());
  told.set_toolchain(ToUtf8(artifact.provenance.toolchain));
  artifact.provenance.compile_micros = bundled.compile_micros();
  std::vector<StageReference> request;
  Incoming incoming;
  for (const v1::BundleStage& stage : bundled.stages()) {
    Blob blob = Blob::FromBytes(std::string(stage.content()));
    if (stage.stage() == kRequestStage) {
      request.push_back({stage.stage(), blob.digest(), blob.size_bytes()});
    } else {
      artifact.stages.push_back({stage.stage(), blob});
    }
    incoming.blobs.push_back(std::move(blob));
  }
  if (artifact.stages.empty()) return InvalidArgument("it has no stages");
  (void)DescriptionOf(artifact);  // makes it, so that the record has it and a hit parses no JSON
  incoming.record = MakeRecord(artifact);
  incoming.record.stages.insert(incoming.record.stages.begin(), request.begin(), request.end());
  incoming.record.created_unix_ms = bundled.created_unix_ms();
  incoming.record.options = bundled.options();
  incoming.provenance = std::move(artifact.provenance);
  return incoming;
}

bool IsHere(const ToolchainCatalog& catalog, const Digest& fingerprint) {
  const auto toolchains = catalog.List();
  return std::any_of(toolchains.begin(), toolchains.end(),
                     [&](const auto& one) { return one->fingerprint == fingerprint; });
}

// Whether it is leased, or leases are off.
bool Lease(const RpcDependencies& parts, const CallContext& context, const Incoming& incoming) {
  return parts.leases.IsOff() || parts.leases.Lease(context.principal.uid, incoming.record.key,
                                                    BundledBytes(incoming.record));
}

// Where the caller's leases have their share, what is imported may still fill up the store, and
// must not push out what was imported before it.
absl::Status Put(const RpcDependencies& parts, const CallContext& context, const Incoming& incoming,
                 bool is_leased) {
  if (is_leased) {
    absl::Status put = parts.index.Put(context, incoming.record, incoming.blobs);
    if (!put.ok()) parts.leases.OnRemove(incoming.record.key);  // or it would count until it ends
    return put;
  }
  // Two blocks that are stored at once must not count on the same room.
  const MutexLock lock(*parts.import_room);
  if (BundledBytes(incoming.record) > parts.store.Stats().room_bytes) {
    return ResourceExhausted("the store is full, and your leases have their share of it");
  }
  return parts.index.Put(context, incoming.record, incoming.blobs);
}

absl::Status Import(const RpcDependencies& parts, const CallContext& context,
                    const v1::BundleArtifact& bundled, ImportedArtifact& told) {
  told.set_key(bundled.key());
  const auto incoming = Read(bundled, told);
  if (!incoming.ok()) {
    told.set_result(ImportedArtifact::DAMAGED);
    told.set_why(ToUtf8(Message(incoming.status())));
    return absl::OkStatus();
  }
  if (!IsHere(parts.catalog, incoming->provenance.toolchain_fingerprint)) {
    told.set_result(ImportedArtifact::NO_TOOLCHAIN);
    return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(const auto there,
                        LookupWithoutUse(context, parts.index, incoming->record.key));
  const bool is_leased = Lease(parts, context, *incoming);
  if (there) {
    told.set_not_leased(!is_leased);
    told.set_result(ImportedArtifact::THERE_ALREADY);
    return absl::OkStatus();
  }
  const absl::Status put = Put(parts, context, *incoming, is_leased);
  if (absl::IsResourceExhausted(put)) {
    told.set_result(ImportedArtifact::NO_ROOM);
    told.set_why(ToUtf8(Message(put)));
    return absl::OkStatus();
  }
  KILN_RETURN_IF_ERROR(put);
  told.set_not_leased(!is_leased);
  told.set_result(ImportedArtifact::STORED);
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportBlock(const RpcDependencies& parts, const std::string& trusted_keys,
                         const CallContext& context, const admin::v1::ImportBlockRequest& request,
                         admin::v1::ImportBlockResponse& response) {
  KILN_RETURN_IF_ERROR(CheckSignature(trusted_keys, request));
  KILN_ASSIGN_OR_RETURN(const std::string content,
                        DecompressFrame(request.frame(), limits::kBundleBlockBytesMax));
  v1::BundleBlock block;
  if (!block.ParseFromString(content)) return DataLoss("the block is no BundleBlock");
  CallContext ahead = context;
  ahead.priority = Priority::kWarm;  // no job waits
  for (const v1::BundleArtifact& artifact : block.artifacts()) {
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    KILN_RETURN_IF_ERROR(Import(parts, ahead, artifact, *response.add_artifacts()));
  }
  if (request.wants_manifest()) response.set_manifest(std::move(*block.mutable_manifest()));
  if (block.has_end()) *response.mutable_end() = block.end();
  return absl::OkStatus();
}

}  // namespace kiln
