#include "daemon/rpc/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "daemon/kernel/artifact_document.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/activity_report.h"
#include "daemon/rpc/admin_calls.h"
#include "daemon/rpc/artifact_catalog.h"
#include "daemon/rpc/bundle_calls.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/verify_call.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/shared_uid.h"

namespace kiln {

namespace pb = admin::v1;

namespace {

// A toolchain runs with the daemon's rights, which other callers of this service do not have.
absl::Status CheckMayChangeToolchains(const Principal& principal) {
  if (principal.uid == 0 || principal.uid == ::geteuid()) return absl::OkStatus();
  return PermissionDenied(
      "toolchains run with the daemon's rights, so only root and the daemon's user add and remove "
      "them");
}

class AdminService final : public pb::AdminService::CallbackService {
 public:
  AdminService(const RpcDependencies& parts, const AdminActions& actions,
               const Principal& principal)
      : parts_(parts), actions_(actions), principal_(principal) {}

  using Call = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

// clang-format off
#define KILN_DEFERRED(Name)                                                                          \
  Unary* Name(Call* call, const pb::Name##Request* request, pb::Name##Response* response) override { \
    return Defer(*call, *request, *response);                                                        \
  }
  KILN_DEFERRED(GetStats)
  KILN_DEFERRED(ListArtifacts)
  KILN_DEFERRED(InspectArtifact)
  KILN_DEFERRED(GetRequest)
  KILN_DEFERRED(ListRequests)
  KILN_DEFERRED(ExportArtifacts)
  KILN_DEFERRED(ImportBlock)
  KILN_DEFERRED(Evict)
  KILN_DEFERRED(Pin)
  KILN_DEFERRED(ListToolchains)
  KILN_DEFERRED(SetDefaultToolchain)
  KILN_DEFERRED(AddToolchain)
  KILN_DEFERRED(RemoveToolchain)
#undef KILN_DEFERRED
  // clang-format on

  grpc::ServerWriteReactor<pb::VerifyReport>* Verify(Call* call,
                                                     const pb::VerifyRequest*) override {
    return VerifyCall::Start(actions_, CallContextOf(*call, principal_));
  }
  Unary* Drain(Call* call, const pb::DrainRequest*, pb::DrainResponse*) override {
    actions_.drain();
    return FinishedCall(*call);
  }
  Unary* ReloadToolchains(Call*, const pb::ReloadToolchainsRequest*,
                          pb::ReloadToolchainsResponse*) override {
    return DeferredCall::StartAnswered({}, [this](const CallContext&, DeferredCall::Answer answer) {
      actions_.reload_toolchains(
          [answer = std::move(answer)](const absl::Status& status) { answer(status, nullptr); });
    });
  }

 private:
  // Runs the Answer to this request on one of the parts' executors.
  template <class Request, class Response>
  Unary* Defer(const Call& call, const Request& request, Response& response) {
    constexpr bool kIsOfBundle = std::is_same_v<Request, pb::ExportArtifactsRequest> ||
                                 std::is_same_v<Request, pb::ImportBlockRequest>;
    Executor& executor = kIsOfBundle ? parts_.bundle_executor : parts_.executor;
    return DeferredCall::Start(executor, CallContextOf(call, principal_),
                               [this, &request, &response](const CallContext& context) {
                                 return Answer(context, request, response);
                               });
  }

  absl::Status Answer(const CallContext&, const pb::GetStatsRequest&, pb::GetStatsResponse& out) {
    actions_.state(out);
    for (const MetricSample& sample : ReadMetrics()) {
      pb::Metric& metric = *out.add_metrics();
      metric.set_name(sample.name);
      for (const auto& [name, value] : sample.labels) (*metric.mutable_labels())[name] = value;
      metric.set_help(sample.help);
      metric.set_is_counter(sample.is_counter);
      metric.set_value(sample.value);
    }
    ShowActivity(parts_.activity, std::nullopt, out);
    return absl::OkStatus();
  }

  absl::Status Answer(const CallContext& context, const pb::ListArtifactsRequest& request,
                      pb::ListArtifactsResponse& response) {
    return kiln::ListArtifacts(parts_.index, context, request, response);
  }

  absl::Status Answer(const CallContext& context, const pb::InspectArtifactRequest& request,
                      pb::InspectArtifactResponse& response) {
    KILN_ASSIGN_OR_RETURN(const FoundArtifact found,
                          FindByPrefix(parts_.index, context, request.key_prefix()));
    KILN_RETURN_IF_ERROR(CheckIsArtifact(found.record->key));
    KILN_ASSIGN_OR_RETURN(const ArtifactDocument document, ParseDocument(found.record->document));
    Summarize(found, *response.mutable_summary());
    DescribeTo(document, response);
    for (const StageReference& stage : found.record->stages) ToProto(stage, *response.add_stages());
    return absl::OkStatus();
  }

  absl::Status Answer(const CallContext& context, const pb::GetRequestRequest& request,
                      pb::GetRequestResponse& response) {
    return FindRequest(parts_, actions_, context, request.key_prefix(), response);
  }

  absl::Status Answer(const CallContext& context, const pb::ListRequestsRequest& request,
                      pb::ListRequestsResponse& response) {
    return kiln::ListRequests(parts_, context, request, response);
  }

  absl::Status Answer(const CallContext& context, const pb::ExportArtifactsRequest& request,
                      pb::ExportArtifactsResponse& response) {
    return kiln::ExportArtifacts(parts_, context, request, response);
  }

  absl::Status Answer(const CallContext& context, const pb::ImportBlockRequest& request,
                      pb::ImportBlockResponse& response) {
    return kiln::ImportBlock(parts_, actions_.trusted_keys, context, request, response);
  }

  absl::Status Answer(const CallContext& context, const pb::EvictRequest& request,
                      pb::EvictResponse& response) {
    return EvictRequested(parts_.index, actions_, context, request, response);
  }

  absl::Status Answer(const CallContext& context, const pb::PinRequest& request, pb::PinResponse&) {
    const auto key = Digest::FromBytes(request.key());
    if (!key.ok()) return Annotate(key.status(), "key");
    // Its user could keep it for ever at nobody's cost.
    KILN_RETURN_IF_ERROR(CheckIsArtifact(*key));
    return parts_.index.SetPinned(context, *key, request.pinned());
  }

  absl::Status Answer(const CallContext&, const pb::ListToolchainsRequest&,
                      pb::ListToolchainsResponse& response) {
    kiln::ListToolchains(actions_, response);
    return absl::OkStatus();
  }

  absl::Status Answer(const CallContext&, const pb::SetDefaultToolchainRequest& request,
                      pb::SetDefaultToolchainResponse&) {
    return actions_.set_default_toolchain(request.selector());
  }

  absl::Status Answer(const CallContext&, const pb::AddToolchainRequest& request,
                      pb::AddToolchainResponse& response) {
    KILN_RETURN_IF_ERROR(CheckMayChangeToolchains(principal_));
    if (!request.path().starts_with('/')) return InvalidArgument("the path is not absolute");
    if (request.name().empty() || request.name().find('/') != std::string::npos) {
      return InvalidArgument("the name of a toolchain is triton, nvrtc, ptxas or clang");
    }
    KILN_ASSIGN_OR_RETURN(
        const AddedToolchain added,
        actions_.add_toolchain({request.name(), request.version(), request.path()}));
    response.set_name(ToUtf8(added.toolchain->Name()));
    response.set_fingerprint(std::string(added.toolchain->fingerprint.Bytes()));
    response.set_installation(ToUtf8(added.toolchain->installation));
    response.set_is_new(added.is_new);
    return absl::OkStatus();
  }

  absl::Status Answer(const CallContext&, const pb::RemoveToolchainRequest& request,
                      pb::RemoveToolchainResponse& response) {
    KILN_RETURN_IF_ERROR(CheckMayChangeToolchains(principal_));
    KILN_ASSIGN_OR_RETURN(const RemovedInstallation removed,
                          actions_.remove_toolchain(request.selector()));
    response.set_installation(ToUtf8(removed.path));
    for (const std::string& name : removed.names) response.add_names(ToUtf8(name));
    return absl::OkStatus();
  }

  const RpcDependencies& parts_;
  const AdminActions& actions_;
  const Principal principal_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminService(const RpcDependencies& parts,
                                                const AdminActions& actions,
                                                const Principal& principal) {
  return std::make_unique<AdminService>(parts, actions, principal);
}

}  // namespace kiln
