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

  using Call = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* GetStats(Call* call, const admin::v1::GetStatsRequest* request,
                  admin::v1::GetStatsResponse* response) override;
  Unary* ListArtifacts(Call* call, const admin::v1::ListArtifactsRequest* request,
                       admin::v1::ListArtifactsResponse* response) override;
  Unary* InspectArtifact(Call* call, const admin::v1::InspectArtifactRequest* request,
                         admin::v1::InspectArtifactResponse* response) override;
  Unary* GetRequest(Call* call, const admin::v1::GetRequestRequest* request,
                    admin::v1::GetRequestResponse* response) override;
  Unary* Evict(Call* call, const admin::v1::EvictRequest* request,
               admin::v1::EvictResponse* response) override;
  Unary* Pin(Call* call, const admin::v1::PinRequest* request,
             admin::v1::PinResponse* response) override;
  grpc::ServerWriteReactor<admin::v1::VerifyReport>* Verify(
      Call* call, const admin::v1::VerifyRequest* request) override;
  Unary* Drain(Call* call, const admin::v1::DrainRequest* request,
               admin::v1::DrainResponse* response) override;
  Unary* ListToolchains(Call* call, const admin::v1::ListToolchainsRequest* request,
                        admin::v1::ListToolchainsResponse* response) override;
  Unary* ReloadToolchains(Call* call, const admin::v1::ReloadToolchainsRequest* request,
                          admin::v1::ReloadToolchainsResponse* response) override;
  Unary* SetDefaultToolchain(Call* call, const admin::v1::SetDefaultToolchainRequest* request,
                             admin::v1::SetDefaultToolchainResponse* response) override;
  Unary* AddToolchain(Call* call, const admin::v1::AddToolchainRequest* request,
                      admin::v1::AddToolchainResponse* response) override;
  Unary* RemoveToolchain(Call* call, const admin::v1::RemoveToolchainRequest* request,
                         admin::v1::RemoveToolchainResponse* response) override;

 private:
  // Runs `work` on the parts' executor and answers with its status.
  Unary* Defer(const Call& call, DeferredCall::Work work);

  const RpcDependencies& parts_;
  const AdminActions& actions_;
  const Principal principal_;
};

}  // namespace kiln
