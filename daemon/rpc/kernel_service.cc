#include "daemon/rpc/kernel_service.h"

#include <utility>

#include "daemon/rpc/compile_call.h"
#include "daemon/rpc/compile_stream_call.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/fetch_call.h"
#include "daemon/rpc/kernel_calls.h"

namespace kiln {
namespace {

template <class Request, class Response>
grpc::ServerUnaryReactor* Answer(KernelMethod<Request, Response> method,
                                 const RpcDependencies& parts, CallContext context,
                                 const Request& request, Response& response) {
  return DeferredCall::StartAnswered(
      std::move(context), [&](const CallContext& cancellable, DeferredCall::Answer answered) {
        method(parts, cancellable, request, response, std::move(answered));
      });
}

}  // namespace

grpc::ServerUnaryReactor* KernelService::Compile(grpc::CallbackServerContext* call,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return StartCompileCall(parts_, principal_, *call, *request, *response);
}

grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamResponse>*
KernelService::CompileStream(grpc::CallbackServerContext* call) {
  return CompileStreamCall::Start(parts_, principal_, *call);
}

grpc::ServerUnaryReactor* KernelService::Lookup(grpc::CallbackServerContext* call,
                                                const v1::LookupRequest* request,
                                                v1::LookupResponse* response) {
  return Answer(kiln::Lookup, parts_, CallContextOf(*call, principal_), *request, *response);
}

grpc::ServerUnaryReactor* KernelService::Nearest(grpc::CallbackServerContext* call,
                                                 const v1::NearestRequest* request,
                                                 v1::NearestResponse* response) {
  return Answer(kiln::Nearest, parts_, CallContextOf(*call, principal_), *request, *response);
}

grpc::ServerWriteReactor<v1::FetchChunk>* KernelService::Fetch(grpc::CallbackServerContext* call,
                                                               const v1::FetchRequest* request) {
  return FetchCall::Start(parts_, CallContextOf(*call, principal_), *request);
}

grpc::ServerUnaryReactor* KernelService::ListToolchains(grpc::CallbackServerContext* call,
                                                        const v1::ListToolchainsRequest* request,
                                                        v1::ListToolchainsResponse* response) {
  return Answer(kiln::ListToolchains, parts_, CallContextOf(*call, principal_), *request,
                *response);
}

grpc::ServerUnaryReactor* KernelService::GetOwn(grpc::CallbackServerContext* call,
                                                const v1::GetOwnRequest* request,
                                                v1::GetOwnResponse* response) {
  return Answer(kiln::GetOwn, parts_, CallContextOf(*call, principal_), *request, *response);
}

grpc::ServerUnaryReactor* KernelService::PutOwn(grpc::CallbackServerContext* call,
                                                const v1::PutOwnRequest* request,
                                                v1::PutOwnResponse* response) {
  return Answer(kiln::PutOwn, parts_, CallContextOf(*call, principal_), *request, *response);
}

grpc::ServerUnaryReactor* KernelService::NoteUses(grpc::CallbackServerContext* call,
                                                  const v1::NoteUsesRequest* request,
                                                  v1::NoteUsesResponse* response) {
  return Answer(kiln::NoteUses, parts_, CallContextOf(*call, principal_), *request, *response);
}

}  // namespace kiln
