#include "client/rpc/admin_client.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "client/rpc/reconnecting_stub.h"
#include "client/rpc/retry.h"
#include "client/rpc/service_calls.h"
#include "client/rpc/socket_path.h"
#include "client/rpc/watched_call.h"
#include "client/rpc/wedged.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"

namespace kiln {

using AdminStub = admin::v1::AdminService::Stub;

class AdminClient::Core {
  // Both services of the administration socket: the kernels' tells whether the daemon lives.
  struct Services {
    struct Stub {
      std::unique_ptr<AdminStub> admin;
      std::unique_ptr<KernelStub> kernels;
    };
    static std::shared_ptr<Stub> NewStub(const std::shared_ptr<grpc::Channel>& channel) {
      return std::make_shared<Stub>(
          Stub{admin::v1::AdminService::NewStub(channel), v1::KernelService::NewStub(channel)});
    }
  };

 public:
  Core(std::string socket_path, const ConnectOptions& options)
      : options_(options),
        stubs_({socket_path, options.server_uid, options.connect_budget}),
        socket_path_(std::move(socket_path)) {}

  absl::Status FirstContact() {
    KILN_ASSIGN_OR_RETURN(const auto stub, stubs_.Get());
    if (!ShowsLife(*stub->kernels, options_.answer_budget)) return WedgedStatus();
    return absl::OkStatus();
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(UnaryMethod<AdminStub, Request, Response> method,
                                const Request& request, const CallOptions& options) {
    Response response;
    KILN_RETURN_IF_ERROR(
        CallRepeatedly(stubs_, options_.retry, options.deadline, [&](Services::Stub& stub) {
          return WatchedCall(*stub.kernels, Limits(options))
              .Unary(*stub.admin, method, request, response);
        }));
    return response;
  }

  // Does not repeat: a second call would start from the beginning.
  absl::Status Verify(const std::function<void(const admin::v1::VerifyReport&)>& report,
                      const CallOptions& options) {
    KILN_ASSIGN_OR_RETURN(const auto stub, stubs_.Get());
    return WatchedCall(*stub->kernels, Limits(options))
        .Stream(*stub->admin, &AdminStub::PrepareAsyncVerify, admin::v1::VerifyRequest(),
                [&](const admin::v1::VerifyReport& message) {
                  report(message);
                  return true;
                });
  }

  const std::string& socket_path() const { return socket_path_; }

 private:
  CallLimits Limits(const CallOptions& options) const {
    return {options_.answer_budget, options.deadline};
  }

  const ConnectOptions options_;
  ReconnectingStub<Services> stubs_;
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
  return core_->Call(&AdminStub::PrepareAsyncGetStats, admin::v1::GetStatsRequest(), options);
}

absl::StatusOr<admin::v1::ListArtifactsResponse> AdminClient::ListArtifacts(
    const admin::v1::ListArtifactsRequest& request, const CallOptions& options) {
  return core_->Call(&AdminStub::PrepareAsyncListArtifacts, request, options);
}

absl::StatusOr<admin::v1::InspectArtifactResponse> AdminClient::InspectArtifact(
    const std::string& key_prefix, const CallOptions& options) {
  admin::v1::InspectArtifactRequest request;
  request.set_key_prefix(key_prefix);
  return core_->Call(&AdminStub::PrepareAsyncInspectArtifact, request, options);
}

absl::StatusOr<admin::v1::GetRequestResponse> AdminClient::GetRequest(const std::string& key_prefix,
                                                                      const CallOptions& options) {
  admin::v1::GetRequestRequest request;
  request.set_key_prefix(key_prefix);
  return core_->Call(&AdminStub::PrepareAsyncGetRequest, request, options);
}

absl::StatusOr<admin::v1::EvictResponse> AdminClient::Evict(const admin::v1::EvictRequest& request,
                                                            const CallOptions& options) {
  return core_->Call(&AdminStub::PrepareAsyncEvict, request, options);
}

absl::Status AdminClient::SetPinned(const std::string& key, bool pinned,
                                    const CallOptions& options) {
  admin::v1::PinRequest request;
  request.set_key(key);
  request.set_pinned(pinned);
  return core_->Call(&AdminStub::PrepareAsyncPin, request, options).status();
}

absl::Status AdminClient::Verify(const std::function<void(const admin::v1::VerifyReport&)>& report,
                                 const CallOptions& options) {
  return core_->Verify(report, options);
}

absl::StatusOr<admin::v1::ListToolchainsResponse> AdminClient::ListToolchains(
    const CallOptions& options) {
  return core_->Call(&AdminStub::PrepareAsyncListToolchains, admin::v1::ListToolchainsRequest(),
                     options);
}

absl::Status AdminClient::ReloadToolchains(const CallOptions& options) {
  return core_
      ->Call(&AdminStub::PrepareAsyncReloadToolchains, admin::v1::ReloadToolchainsRequest(),
             options)
      .status();
}

absl::Status AdminClient::SetDefaultToolchain(const std::string& selector,
                                              const CallOptions& options) {
  admin::v1::SetDefaultToolchainRequest request;
  request.set_selector(selector);
  return core_->Call(&AdminStub::PrepareAsyncSetDefaultToolchain, request, options).status();
}

absl::StatusOr<admin::v1::AddToolchainResponse> AdminClient::AddToolchain(
    const admin::v1::AddToolchainRequest& request, const CallOptions& options) {
  return core_->Call(&AdminStub::PrepareAsyncAddToolchain, request, options);
}

absl::StatusOr<admin::v1::RemoveToolchainResponse> AdminClient::RemoveToolchain(
    const std::string& selector, const CallOptions& options) {
  admin::v1::RemoveToolchainRequest request;
  request.set_selector(selector);
  return core_->Call(&AdminStub::PrepareAsyncRemoveToolchain, request, options);
}

absl::Status AdminClient::Drain(const CallOptions& options) {
  return core_->Call(&AdminStub::PrepareAsyncDrain, admin::v1::DrainRequest(), options).status();
}

const std::string& AdminClient::socket_path() const { return core_->socket_path(); }

}  // namespace kiln
