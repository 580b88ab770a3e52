#include "client/rpc/admin_client.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "client/rpc/reconnecting_stub.h"
#include "client/rpc/retry.h"
#include "client/rpc/service_calls.h"
#include "client/rpc/socket_path.h"
#include "client/rpc/status_details.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"

namespace kiln {

using AdminStub = admin::v1::AdminService::Stub;

class AdminClient::Core {
 public:
  Core(std::string socket_path, const ConnectOptions& options)
      : retry_(options.retry),
        stubs_({socket_path, options.server_uid, options.connect_budget}),
        socket_path_(std::move(socket_path)) {}

  absl::Status FirstContact() { return stubs_.Get().status(); }

  // `method` is one of the stub's unary calls.
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (AdminStub::*method)(grpc::ClientContext*, const Request&,
                                                      Response*),
                    const Request& request, Response& response, const CallOptions& options) {
    return CallRepeatedly(stubs_, retry_, options.deadline, [&](AdminStub& stub) {
      grpc::ClientContext context;
      SetDeadline(context, options.deadline);
      return FromGrpc((stub.*method)(&context, request, &response));
    });
  }

  // Not repeated: it would start from the beginning.
  absl::Status Verify(const std::function<void(const admin::v1::VerifyReport&)>& report,
                      const CallOptions& options) {
    KILN_ASSIGN_OR_RETURN(const auto stub, stubs_.Get());
    grpc::ClientContext context;
    SetDeadline(context, options.deadline);
    const auto reader = stub->Verify(&context, {});
    admin::v1::VerifyReport message;
    while (reader->Read(&message)) report(message);
    return FromGrpc(reader->Finish());
  }

  const std::string& socket_path() const { return socket_path_; }

 private:
  const RetryOptions retry_;
  ReconnectingStub<admin::v1::AdminService> stubs_;
  const std::string socket_path_;
};

AdminClient::AdminClient(std::unique_ptr<Core> core) : core_(std::move(core)) {}
AdminClient::~AdminClient() = default;

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Connect(const ConnectOptions& options) {
  KILN_ASSIGN_OR_RETURN(
      std::string path,
      FindSocket(options.socket_path, options.root, kAdminSocket, SocketSurroundings::OfProcess()));
  auto core = std::make_unique<Core>(std::move(path), options);
  KILN_RETURN_IF_ERROR(core->FirstContact());
  return std::unique_ptr<AdminClient>(new AdminClient(std::move(core)));
}

absl::StatusOr<admin::v1::GetStatsResponse> AdminClient::GetStats(const CallOptions& options) {
  admin::v1::GetStatsResponse response;
  KILN_RETURN_IF_ERROR(core_->Call(&AdminStub::GetStats, {}, response, options));
  return response;
}

absl::StatusOr<admin::v1::ListArtifactsResponse> AdminClient::ListArtifacts(
    const admin::v1::ListArtifactsRequest& request, const CallOptions& options) {
  admin::v1::ListArtifactsResponse response;
  KILN_RETURN_IF_ERROR(core_->Call(&AdminStub::ListArtifacts, request, response, options));
  return response;
}

absl::StatusOr<admin::v1::InspectArtifactResponse> AdminClient::InspectArtifact(
    const std::string& key_prefix, const CallOptions& options) {
  admin::v1::InspectArtifactRequest request;
  request.set_key_prefix(key_prefix);
  admin::v1::InspectArtifactResponse response;
  KILN_RETURN_IF_ERROR(core_->Call(&AdminStub::InspectArtifact, request, response, options));
  return response;
}

absl::StatusOr<admin::v1::EvictResponse> AdminClient::Evict(const admin::v1::EvictRequest& request,
                                                            const CallOptions& options) {
  admin::v1::EvictResponse response;
  KILN_RETURN_IF_ERROR(core_->Call(&AdminStub::Evict, request, response, options));
  return response;
}

absl::Status AdminClient::SetPinned(const std::string& key, bool pinned,
                                    const CallOptions& options) {
  admin::v1::PinRequest request;
  request.set_key(key);
  request.set_pinned(pinned);
  admin::v1::PinResponse response;
  return core_->Call(&AdminStub::Pin, request, response, options);
}

absl::Status AdminClient::Verify(const std::function<void(const admin::v1::VerifyReport&)>& report,
                                 const CallOptions& options) {
  return core_->Verify(report, options);
}

absl::Status AdminClient::Drain(const CallOptions& options) {
  admin::v1::DrainResponse response;
  return core_->Call(&AdminStub::Drain, {}, response, options);
}

const std::string& AdminClient::socket_path() const { return core_->socket_path(); }

}  // namespace kiln
