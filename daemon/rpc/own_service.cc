// What everybody may ask, on kilnd.sock: of the own jobs, and which toolchains there are.
#include <utility>

#include "daemon/rpc/activity_report.h"
#include "daemon/rpc/admin_calls.h"
#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/artifact_catalog.h"
#include "daemon/rpc/deferred_call.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "storage/base/limits.h"
#include "storage/base/shared_uid.h"

namespace kiln {

namespace pb = admin::v1;

namespace {

class OwnService final : public pb::OwnService::CallbackService {
 public:
  OwnService(const RpcDependencies& parts, const AdminActions& actions, const Principal& principal)
      : parts_(parts), actions_(actions), principal_(principal) {}

  using Call = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* GetStats(Call* call, const pb::GetStatsRequest*, pb::GetStatsResponse* response) override {
    return Defer(*call, *response, [this, response](const CallContext&) -> absl::Status {
      KILN_RETURN_IF_ERROR(CheckIsOneUser(parts_.shared_uid, principal_));
      pb::GetStatsResponse all;
      actions_.state(all);
      response->set_version(all.version());
      response->set_started_unix_ms(all.started_unix_ms());
      response->set_state(all.state());
      ShowActivity(parts_.activity, principal_.uid, *response);
      return absl::OkStatus();
    });
  }
  Unary* ListArtifacts(Call* call, const pb::ListArtifactsRequest* request,
                       pb::ListArtifactsResponse* response) override {
    return DeferList(*call, *request, *response);
  }
  Unary* ListRequests(Call* call, const pb::ListRequestsRequest* request,
                      pb::ListRequestsResponse* response) override {
    return DeferList(*call, *request, *response);
  }
  Unary* GetRequest(Call* call, const pb::GetRequestRequest* request,
                    pb::GetRequestResponse* response) override {
    return Defer(
        *call, *response, [this, request, response](const CallContext& context) -> absl::Status {
          KILN_RETURN_IF_ERROR(CheckIsOneUser(parts_.shared_uid, principal_));
          return FindOwnRequest(parts_, context, principal_.uid, request->key_prefix(), *response);
        });
  }
  Unary* ListToolchains(Call* call, const pb::ListToolchainsRequest*,
                        pb::ListToolchainsResponse* response) override {
    return Defer(*call, *response, [this, response](const CallContext&) {
      ListToolchainsForEverybody(actions_, *response);
      return absl::OkStatus();
    });
  }

 private:
  absl::Status ListOwn(const CallContext& context, const pb::ListArtifactsRequest& request,
                       pb::ListArtifactsResponse& response) {
    KILN_ASSIGN_OR_RETURN(const auto own, Own(request));
    return kiln::ListArtifacts(parts_.index, context, own, response);
  }

  absl::Status ListOwn(const CallContext& context, const pb::ListRequestsRequest& request,
                       pb::ListRequestsResponse& response) {
    KILN_ASSIGN_OR_RETURN(const auto own, Own(request));
    return kiln::ListRequests(parts_, context, own, response);
  }

  // The request for the caller's user alone.
  template <class Request>
  absl::StatusOr<Request> Own(const Request& request) const {
    KILN_RETURN_IF_ERROR(CheckIsOneUser(parts_.shared_uid, principal_));
    if (request.has_uid() && request.uid() != principal_.uid) {
      return PermissionDenied(
          "you are uid {}: what was compiled for uid {} is listed to operators alone, on "
          "admin.sock",
          principal_.uid, request.uid());
    }
    Request own = request;
    own.set_uid(principal_.uid);
    return own;
  }

  template <class Request, class Response>
  Unary* DeferList(Call& call, const Request& request, Response& response) {
    if (parts_.searches.fetch_add(1) >= limits::kNearestSearchesMax) {
      --parts_.searches;
      return FinishedCall(
          call, ToGrpcStatus(ResourceExhausted("too many lists are being made; try again")));
    }
    return Defer(call, response, [this, &request, &response](const CallContext& context) {
      const absl::Status listed = ListOwn(context, request, response);
      --parts_.searches;
      return listed;
    });
  }

  // Runs `work`, which fills `response`, on the parts' executor.
  template <class Response>
  Unary* Defer(const Call& call, Response& response, DeferredCall::Work work) {
    return DeferredCall::StartCharged(
        CallContextOf(call, principal_), *unread_, response,
        [&](const CallContext& cancellable, auto answered) {
          parts_.executor.Run([cancellable, work = std::move(work),
                               answered = std::move(answered)] { answered(work(cancellable)); });
        });
  }

  const RpcDependencies& parts_;
  const AdminActions& actions_;
  const Principal principal_;
  const std::shared_ptr<ByteBudget> unread_ = std::make_shared<ByteBudget>(parts_.unread);
};

}  // namespace

std::unique_ptr<grpc::Service> MakeOwnService(const RpcDependencies& parts,
                                              const AdminActions& actions,
                                              const Principal& principal) {
  return std::make_unique<OwnService>(parts, actions, principal);
}

}  // namespace kiln
