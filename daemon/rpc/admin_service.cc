#include "daemon/rpc/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/kernel/artifact_reader.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/artifact_catalog.h"
#include "daemon/rpc/compile_start.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/eviction_request.h"
#include "daemon/rpc/reproduction.h"
#include "daemon/rpc/verify_call.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"

namespace kiln {

namespace pb = admin::v1;

namespace {

void SetStats(const DaemonState& state, pb::GetStatsResponse& out) {
  out.set_version(state.version);
  out.set_started_unix_ms(state.started_unix_ms);
  out.set_state(state.state);
  out.set_state_reason(ToUtf8(state.reason));
  out.set_compile_path(state.compile_path);
  out.set_store(state.store);
  for (const DaemonState::Served& toolchain : state.toolchains) {
    pb::ToolchainStats& converted = *out.add_toolchains();
    converted.set_name(toolchain.name);
    converted.set_fingerprint(std::string(toolchain.fingerprint.Bytes()));
    converted.set_state(ToUtf8(toolchain.state));
  }
  out.set_toolchain_change(ToUtf8(state.toolchain_change));
  out.set_jail(state.jail);
  for (const std::string& problem : state.jail_problems) out.add_jail_problems(ToUtf8(problem));
  for (const std::string& limit : state.plain_limits) out.add_plain_limits(ToUtf8(limit));
  for (const MetricSample& sample : ReadMetrics()) {
    pb::Metric& metric = *out.add_metrics();
    metric.set_name(sample.name);
    for (const auto& [name, value] : sample.labels) (*metric.mutable_labels())[name] = value;
    metric.set_help(sample.help);
    metric.set_is_counter(sample.is_counter);
    metric.set_value(sample.value);
  }
}

absl::Status List(const RpcDependencies& parts, const CallContext& context,
                  const pb::ListArtifactsRequest& request, pb::ListArtifactsResponse& response) {
  KILN_ASSIGN_OR_RETURN(const KeyRange range, KeysBeginningWith(request.key_prefix()));
  std::optional<Digest> after;
  if (!request.after().empty()) {
    const auto parsed = Digest::FromBytes(request.after());
    if (!parsed.ok()) return Annotate(parsed.status(), "after");
    after = *parsed;
  }
  const size_t limit = request.limit() == 0
                           ? limits::kListPageMax
                           : std::min<size_t>(request.limit(), limits::kListPageMax);
  KILN_ASSIGN_OR_RETURN(const ArtifactPage page,
                        ReadPage(parts.index, context, range, after, limit));
  for (const FoundArtifact& found : page.artifacts) {
    Summarize(found, *response.add_artifacts());
  }
  if (page.has_more) response.set_next(std::string(page.artifacts.back().record->key.Bytes()));
  return absl::OkStatus();
}

absl::Status Inspect(const RpcDependencies& parts, const CallContext& context,
                     const std::string& key_prefix, pb::InspectArtifactResponse& response) {
  KILN_ASSIGN_OR_RETURN(const FoundArtifact found, FindByPrefix(parts.index, context, key_prefix));
  KILN_RETURN_IF_ERROR(CheckIsArtifact(found.record->key));
  KILN_ASSIGN_OR_RETURN(const auto document, LoadDocument(found.record));
  Summarize(found, *response.mutable_summary());
  DescribeTo(*document, response);
  for (const StageReference& stage : found.record->stages) ToProto(stage, *response.add_stages());
  return absl::OkStatus();
}

absl::Status SetPin(ArtifactIndex& index, const CallContext& context,
                    const pb::PinRequest& request) {
  const auto key = Digest::FromBytes(request.key());
  if (!key.ok()) return Annotate(key.status(), "key");
  // Its user could keep it for ever at nobody's cost.
  KILN_RETURN_IF_ERROR(CheckIsArtifact(*key));
  return index.SetPinned(context, *key, request.pinned());
}

void SetToolchains(const ToolchainsHere& here, pb::ListToolchainsResponse& out) {
  for (const ToolchainsHere::Held& held : here.held) {
    pb::HeldToolchain& converted = *out.add_toolchains();
    ToProto(*held.toolchain, *converted.mutable_toolchain());
    converted.mutable_toolchain()->set_is_default(here.has_default && out.toolchains_size() == 1);
    converted.set_path(ToUtf8(held.toolchain->directory));
    converted.set_installation(ToUtf8(held.toolchain->installation));
    converted.set_state(ToUtf8(held.state));
    for (const std::string& remark : held.remarks) converted.add_remarks(ToUtf8(remark));
  }
  for (const auto& rejected : here.rejected) {
    pb::RejectedToolchain& converted = *out.add_rejected();
    converted.set_path(ToUtf8(rejected.directory));
    converted.set_installation(ToUtf8(rejected.installation));
    converted.set_reason(ToUtf8(rejected.reason));
  }
  for (const std::string& directory : here.directories) out.add_directories(ToUtf8(directory));
  out.set_default_selector(here.default_selector);
  out.set_is_default_configured(here.is_default_configured);
}

// A toolchain runs with the daemon's rights, which other callers of this service do not have.
absl::Status CheckMayChangeToolchains(const Principal& principal) {
  if (principal.uid == 0 || principal.uid == ::geteuid()) return absl::OkStatus();
  return PermissionDenied(
      "toolchains run with the daemon's rights, so only root and the daemon's user add and remove "
      "them");
}

absl::Status Add(const AdminActions& actions, const Principal& principal,
                 const pb::AddToolchainRequest& request, pb::AddToolchainResponse& response) {
  KILN_RETURN_IF_ERROR(CheckMayChangeToolchains(principal));
  if (!request.path().starts_with('/')) return InvalidArgument("the path is not absolute");
  if (request.name().empty() || request.name().find('/') != std::string::npos) {
    return InvalidArgument("the name of a toolchain is triton, nvrtc or ptxas");
  }
  KILN_ASSIGN_OR_RETURN(const AddedToolchain added,
                        actions.add_toolchain({request.name(), request.version(), request.path()}));
  response.set_name(ToUtf8(added.toolchain->Name()));
  response.set_fingerprint(std::string(added.toolchain->fingerprint.Bytes()));
  response.set_installation(ToUtf8(added.toolchain->installation));
  response.set_is_new(added.is_new);
  return absl::OkStatus();
}

absl::Status Remove(const AdminActions& actions, const Principal& principal,
                    const pb::RemoveToolchainRequest& request,
                    pb::RemoveToolchainResponse& response) {
  KILN_RETURN_IF_ERROR(CheckMayChangeToolchains(principal));
  KILN_ASSIGN_OR_RETURN(const RemovedInstallation removed,
                        actions.remove_toolchain(request.selector()));
  response.set_installation(ToUtf8(removed.path));
  for (const std::string& name : removed.names) response.add_names(ToUtf8(name));
  return absl::OkStatus();
}

}  // namespace

AdminService::Unary* AdminService::Defer(const Call& call, DeferredCall::Work work) {
  return DeferredCall::Start(parts_.executor, CallContextOf(call, principal_), std::move(work));
}

AdminService::Unary* AdminService::GetStats(Call* call, const pb::GetStatsRequest*,
                                            pb::GetStatsResponse* response) {
  return Defer(*call, [this, response](const CallContext&) {
    SetStats(actions_.state(), *response);
    return absl::OkStatus();
  });
}

AdminService::Unary* AdminService::ListArtifacts(Call* call,
                                                 const pb::ListArtifactsRequest* request,
                                                 pb::ListArtifactsResponse* response) {
  return Defer(*call, [this, request, response](const CallContext& context) {
    return List(parts_, context, *request, *response);
  });
}

AdminService::Unary* AdminService::InspectArtifact(Call* call,
                                                   const pb::InspectArtifactRequest* request,
                                                   pb::InspectArtifactResponse* response) {
  return Defer(*call, [this, request, response](const CallContext& context) {
    return Inspect(parts_, context, request->key_prefix(), *response);
  });
}

AdminService::Unary* AdminService::GetRequest(Call* call, const pb::GetRequestRequest* request,
                                              pb::GetRequestResponse* response) {
  return Defer(*call, [this, request, response](const CallContext& context) {
    return FindRequest(parts_, actions_, context, request->key_prefix(), *response);
  });
}

AdminService::Unary* AdminService::Evict(Call* call, const pb::EvictRequest* request,
                                         pb::EvictResponse* response) {
  return Defer(*call, [this, request, response](const CallContext& context) {
    return EvictRequested(parts_.index, actions_, context, *request, *response);
  });
}

AdminService::Unary* AdminService::Pin(Call* call, const pb::PinRequest* request,
                                       pb::PinResponse*) {
  return Defer(*call, [this, request](const CallContext& context) {
    return SetPin(parts_.index, context, *request);
  });
}

grpc::ServerWriteReactor<pb::VerifyReport>* AdminService::Verify(Call* call,
                                                                 const pb::VerifyRequest*) {
  return VerifyCall::Start(actions_, CallContextOf(*call, principal_));
}

AdminService::Unary* AdminService::Drain(Call* call, const pb::DrainRequest*, pb::DrainResponse*) {
  actions_.drain();
  return FinishedCall(*call);
}

AdminService::Unary* AdminService::ListToolchains(Call* call, const pb::ListToolchainsRequest*,
                                                  pb::ListToolchainsResponse* response) {
  return Defer(*call, [this, response](const CallContext&) {
    SetToolchains(actions_.toolchains(), *response);
    return absl::OkStatus();
  });
}

AdminService::Unary* AdminService::ReloadToolchains(Call*, const pb::ReloadToolchainsRequest*,
                                                    pb::ReloadToolchainsResponse*) {
  return DeferredCall::StartAnswered({}, [this](const CallContext&, DeferredCall::Answer answer) {
    actions_.reload_toolchains(std::move(answer));
  });
}

AdminService::Unary* AdminService::SetDefaultToolchain(
    Call* call, const pb::SetDefaultToolchainRequest* request, pb::SetDefaultToolchainResponse*) {
  return Defer(*call, [this, request](const CallContext&) {
    return actions_.set_default_toolchain(request->selector());
  });
}

AdminService::Unary* AdminService::AddToolchain(Call* call, const pb::AddToolchainRequest* request,
                                                pb::AddToolchainResponse* response) {
  return Defer(*call, [this, request, response](const CallContext&) {
    return Add(actions_, principal_, *request, *response);
  });
}

AdminService::Unary* AdminService::RemoveToolchain(Call* call,
                                                   const pb::RemoveToolchainRequest* request,
                                                   pb::RemoveToolchainResponse* response) {
  return Defer(*call, [this, request, response](const CallContext&) {
    return Remove(actions_, principal_, *request, *response);
  });
}

}  // namespace kiln
