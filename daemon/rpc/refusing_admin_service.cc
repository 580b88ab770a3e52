#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/deferred_call.h"

namespace kiln {
namespace {

grpc::Status Refusal() {
  return {
      grpc::StatusCode::PERMISSION_DENIED,
      "this is kilnd.sock, which serves compiles only; administration is on admin.sock beside it"};
}

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext& call) {
  return FinishedCall(call, Refusal());
}

class RefusedStream final : public grpc::ServerWriteReactor<admin::v1::VerifyReport> {
 public:
  RefusedStream() { Finish(Refusal()); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* RefusingAdminService::GetStats(grpc::CallbackServerContext* call,
                                                         const admin::v1::GetStatsRequest*,
                                                         admin::v1::GetStatsResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::ListArtifacts(
    grpc::CallbackServerContext* call, const admin::v1::ListArtifactsRequest*,
    admin::v1::ListArtifactsResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::InspectArtifact(
    grpc::CallbackServerContext* call, const admin::v1::InspectArtifactRequest*,
    admin::v1::InspectArtifactResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::GetRequest(grpc::CallbackServerContext* call,
                                                           const admin::v1::GetRequestRequest*,
                                                           admin::v1::GetRequestResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::Evict(grpc::CallbackServerContext* call,
                                                      const admin::v1::EvictRequest*,
                                                      admin::v1::EvictResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::Pin(grpc::CallbackServerContext* call,
                                                    const admin::v1::PinRequest*,
                                                    admin::v1::PinResponse*) {
  return Refuse(*call);
}

grpc::ServerWriteReactor<admin::v1::VerifyReport>* RefusingAdminService::Verify(
    grpc::CallbackServerContext*, const admin::v1::VerifyRequest*) {
  return new RefusedStream;
}

grpc::ServerUnaryReactor* RefusingAdminService::Drain(grpc::CallbackServerContext* call,
                                                      const admin::v1::DrainRequest*,
                                                      admin::v1::DrainResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::ListToolchains(
    grpc::CallbackServerContext* call, const admin::v1::ListToolchainsRequest*,
    admin::v1::ListToolchainsResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::ReloadToolchains(
    grpc::CallbackServerContext* call, const admin::v1::ReloadToolchainsRequest*,
    admin::v1::ReloadToolchainsResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::SetDefaultToolchain(
    grpc::CallbackServerContext* call, const admin::v1::SetDefaultToolchainRequest*,
    admin::v1::SetDefaultToolchainResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::AddToolchain(grpc::CallbackServerContext* call,
                                                             const admin::v1::AddToolchainRequest*,
                                                             admin::v1::AddToolchainResponse*) {
  return Refuse(*call);
}

grpc::ServerUnaryReactor* RefusingAdminService::RemoveToolchain(
    grpc::CallbackServerContext* call, const admin::v1::RemoveToolchainRequest*,
    admin::v1::RemoveToolchainResponse*) {
  return Refuse(*call);
}

}  // namespace kiln
