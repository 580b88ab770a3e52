// What operators ask of the daemon (protos/kiln/admin/v1/admin_service.proto).
#pragma once

#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"

namespace kiln {

// Thread-safe. Everything that touches the disk runs on the parts' executor, Verify on a thread of
// its own.
class AdminService final : public admin::v1::AdminService::CallbackService {
 public:
  AdminService(const RpcDependencies& parts, const AdminActions& actions,
               const Principal& principal)
      : parts_(parts), actions_(actions), principal_(principal) {}

  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* call,
                                     const admin::v1::GetStatsRequest* request,
                                     admin::v1::GetStatsResponse* response) override;
  grpc::ServerUnaryReactor* ListArtifacts(grpc::CallbackServerContext* call,
                                          const admin::v1::ListArtifactsRequest* request,
                                          admin::v1::ListArtifactsResponse* response) override;
  grpc::ServerUnaryReactor* InspectArtifact(grpc::CallbackServerContext* call,
                                            const admin::v1::InspectArtifactRequest* request,
                                            admin::v1::InspectArtifactResponse* response) override;
  grpc::ServerUnaryReactor* GetRequest(grpc::CallbackServerContext* call,
                                       const admin::v1::GetRequestRequest* request,
                                       admin::v1::GetRequestResponse* response) override;
  grpc::ServerUnaryReactor* Evict(grpc::CallbackServerContext* call,
                                  const admin::v1::EvictRequest* request,
                                  admin::v1::EvictResponse* response) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* call,
                                const admin::v1::PinRequest* request,
                                admin::v1::PinResponse* response) override;
  grpc::ServerWriteReactor<admin::v1::VerifyReport>* Verify(
      grpc::CallbackServerContext* call, const admin::v1::VerifyRequest* request) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* call,
                                  const admin::v1::DrainRequest* request,
                                  admin::v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* ListToolchains(grpc::CallbackServerContext* call,
                                           const admin::v1::ListToolchainsRequest* request,
                                           admin::v1::ListToolchainsResponse* response) override;
  grpc::ServerUnaryReactor* ReloadToolchains(
      grpc::CallbackServerContext* call, const admin::v1::ReloadToolchainsRequest* request,
      admin::v1::ReloadToolchainsResponse* response) override;
  grpc::ServerUnaryReactor* SetDefaultToolchain(
      grpc::CallbackServerContext* call, const admin::v1::SetDefaultToolchainRequest* request,
      admin::v1::SetDefaultToolchainResponse* response) override;
  grpc::ServerUnaryReactor* AddToolchain(grpc::CallbackServerContext* call,
                                         const admin::v1::AddToolchainRequest* request,
                                         admin::v1::AddToolchainResponse* response) override;
  grpc::ServerUnaryReactor* RemoveToolchain(grpc::CallbackServerContext* call,
                                            const admin::v1::RemoveToolchainRequest* request,
                                            admin::v1::RemoveToolchainResponse* response) override;

 private:
  // Runs `work` on the parts' executor and answers with its status.
  grpc::ServerUnaryReactor* Defer(const grpc::CallbackServerContext& call, DeferredCall::Work work);

  const RpcDependencies& parts_;
  const AdminActions& actions_;
  const Principal principal_;
};

// Stands on the clients' socket in the place of the administration service, so that whoever
// connects to the wrong one is told so rather than left with UNIMPLEMENTED.
class RefusingAdminService final : public admin::v1::AdminService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* call,
                                     const admin::v1::GetStatsRequest*,
                                     admin::v1::GetStatsResponse*) override;
  grpc::ServerUnaryReactor* ListArtifacts(grpc::CallbackServerContext* call,
                                          const admin::v1::ListArtifactsRequest*,
                                          admin::v1::ListArtifactsResponse*) override;
  grpc::ServerUnaryReactor* InspectArtifact(grpc::CallbackServerContext* call,
                                            const admin::v1::InspectArtifactRequest*,
                                            admin::v1::InspectArtifactResponse*) override;
  grpc::ServerUnaryReactor* GetRequest(grpc::CallbackServerContext* call,
                                       const admin::v1::GetRequestRequest* request,
                                       admin::v1::GetRequestResponse* response) override;
  grpc::ServerUnaryReactor* Evict(grpc::CallbackServerContext* call, const admin::v1::EvictRequest*,
                                  admin::v1::EvictResponse*) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* call, const admin::v1::PinRequest*,
                                admin::v1::PinResponse*) override;
  grpc::ServerWriteReactor<admin::v1::VerifyReport>* Verify(
      grpc::CallbackServerContext* call, const admin::v1::VerifyRequest*) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* call, const admin::v1::DrainRequest*,
                                  admin::v1::DrainResponse*) override;
  grpc::ServerUnaryReactor* ListToolchains(grpc::CallbackServerContext* call,
                                           const admin::v1::ListToolchainsRequest*,
                                           admin::v1::ListToolchainsResponse*) override;
  grpc::ServerUnaryReactor* ReloadToolchains(grpc::CallbackServerContext* call,
                                             const admin::v1::ReloadToolchainsRequest*,
                                             admin::v1::ReloadToolchainsResponse*) override;
  grpc::ServerUnaryReactor* SetDefaultToolchain(grpc::CallbackServerContext* call,
                                                const admin::v1::SetDefaultToolchainRequest*,
                                                admin::v1::SetDefaultToolchainResponse*) override;
  grpc::ServerUnaryReactor* AddToolchain(grpc::CallbackServerContext* call,
                                         const admin::v1::AddToolchainRequest*,
                                         admin::v1::AddToolchainResponse*) override;
  grpc::ServerUnaryReactor* RemoveToolchain(grpc::CallbackServerContext* call,
                                            const admin::v1::RemoveToolchainRequest*,
                                            admin::v1::RemoveToolchainResponse*) override;
};

}  // namespace kiln
