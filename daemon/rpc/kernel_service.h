// What clients ask of the daemon (protos/kiln/v1/kernel_service.proto), on behalf of one principal.
#pragma once

#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/v1/kernel_service.grpc.pb.h"

namespace kiln {

// The generated service with one method taken as bytes (compile_call.h says why).
using KernelServiceBase = v1::KernelService::WithRawCallbackMethod_Compile<
    v1::KernelService::WithCallbackMethod_CompileStream<
        v1::KernelService::WithCallbackMethod_Lookup<v1::KernelService::WithCallbackMethod_Nearest<
            v1::KernelService::WithCallbackMethod_Fetch<
                v1::KernelService::WithCallbackMethod_ListToolchains<
                    v1::KernelService::WithCallbackMethod_GetOwn<
                        v1::KernelService::WithCallbackMethod_PutOwn<
                            v1::KernelService::WithCallbackMethod_NoteUses<
                                v1::KernelService::Service>>>>>>>>>;

// Thread-safe. Methods run on gRPC's few threads: a hit is answered right there, everything that
// waits or reads much goes elsewhere.
class KernelService final : public KernelServiceBase {
 public:
  KernelService(const RpcDependencies& parts, const Principal& principal)
      : parts_(parts), principal_(principal) {}

  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamResponse>* CompileStream(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* call,
                                   const v1::LookupRequest* request,
                                   v1::LookupResponse* response) override;
  grpc::ServerUnaryReactor* Nearest(grpc::CallbackServerContext* call,
                                    const v1::NearestRequest* request,
                                    v1::NearestResponse* response) override;
  grpc::ServerWriteReactor<v1::FetchChunk>* Fetch(grpc::CallbackServerContext* call,
                                                  const v1::FetchRequest* request) override;
  grpc::ServerUnaryReactor* ListToolchains(grpc::CallbackServerContext* call,
                                           const v1::ListToolchainsRequest* request,
                                           v1::ListToolchainsResponse* response) override;
  grpc::ServerUnaryReactor* GetOwn(grpc::CallbackServerContext* call,
                                   const v1::GetOwnRequest* request,
                                   v1::GetOwnResponse* response) override;
  grpc::ServerUnaryReactor* PutOwn(grpc::CallbackServerContext* call,
                                   const v1::PutOwnRequest* request,
                                   v1::PutOwnResponse* response) override;
  grpc::ServerUnaryReactor* NoteUses(grpc::CallbackServerContext* call,
                                     const v1::NoteUsesRequest* request,
                                     v1::NoteUsesResponse* response) override;

 private:
  const RpcDependencies& parts_;
  const Principal principal_;
};

}  // namespace kiln
