#include "daemon/rpc/kernel_service.h"

#include <algorithm>
#include <utility>

#include "daemon/rpc/compile_call.h"
#include "daemon/rpc/compile_stream_call.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/kernel_calls.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// Reads the blob off gRPC's threads, then writes it chunk by chunk, one at a time: a client that
// stops reading holds one blob, which counts, and one chunk. Deletes itself in OnDone.
class FetchCall final : public grpc::ServerWriteReactor<v1::FetchChunk> {
 public:
  // Started; gRPC takes it from here.
  static FetchCall* Start(const RpcDependencies& parts, ByteBudget& unread, CallContext context,
                          const v1::FetchRequest& request) {
    auto* call = new FetchCall;
    context.cancellation = call->cancellation_;
    // The call stays until Finish, which nothing else calls.
    Fetch(parts, context, request, [call, &unread](absl::StatusOr<Blob> found) {
      if (!found.ok()) return call->Finish(ToGrpcStatus(found.status()));
      auto share = unread.Take(found->size_bytes());
      if (!share.ok()) return call->Finish(ToGrpcStatus(share.status()));
      call->share_ = *std::move(share);
      call->blob_ = *std::move(found);
      call->WriteNext();
    });
    return call;
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (sent_bytes_ == blob_.size_bytes()) return Finish(grpc::Status::OK);
    WriteNext();
  }
  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    const std::string_view rest = blob_.bytes().substr(sent_bytes_);
    const std::string_view next = rest.substr(0, std::min(rest.size(), limits::kFetchChunkBytes));
    chunk_.set_content(next.data(), next.size());
    sent_bytes_ += next.size();
    StartWrite(&chunk_);
  }

  Cancellation cancellation_;
  ByteBudget::Share share_;  // of the blob
  Blob blob_;
  size_t sent_bytes_ = 0;
  v1::FetchChunk chunk_;
};

// The generated service with two methods taken as bytes (compile_call.h says why).
using KernelServiceBase = v1::KernelService::WithRawCallbackMethod_Compile<
    v1::KernelService::WithRawCallbackMethod_CompileStream<
        v1::KernelService::WithCallbackMethod_Lookup<v1::KernelService::WithCallbackMethod_Nearest<
            v1::KernelService::WithCallbackMethod_Fetch<
                v1::KernelService::WithCallbackMethod_ListToolchains<
                    v1::KernelService::WithCallbackMethod_GetOwn<
                        v1::KernelService::WithCallbackMethod_PutOwn<
                            v1::KernelService::WithCallbackMethod_NoteUses<
                                v1::KernelService::Service>>>>>>>>>;

class KernelService final : public KernelServiceBase {
 public:
  KernelService(const RpcDependencies& parts, const Principal& principal)
      : parts_(parts), principal_(principal) {}

  using Call = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* Compile(Call* call, const grpc::ByteBuffer* request, grpc::ByteBuffer* response) override {
    return StartCompileCall(parts_, principal_, *unread_, *call, *request, *response);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* CompileStream(Call* call) override {
    return CompileStreamCall::Start(parts_, principal_, *unread_, *call);
  }
  grpc::ServerWriteReactor<v1::FetchChunk>* Fetch(Call* call,
                                                  const v1::FetchRequest* request) override {
    return FetchCall::Start(parts_, *unread_, CallContextOf(*call, principal_), *request);
  }

// clang-format off
#define KILN_ANSWERED(Name)                                                                          \
  Unary* Name(Call* call, const v1::Name##Request* request, v1::Name##Response* response) override { \
    return Answer(kiln::Name, *call, *request, *response);                                           \
  }
  KILN_ANSWERED(Lookup)
  KILN_ANSWERED(Nearest)
  KILN_ANSWERED(ListToolchains)
  KILN_ANSWERED(GetOwn)
  KILN_ANSWERED(PutOwn)
  KILN_ANSWERED(NoteUses)
#undef KILN_ANSWERED
  // clang-format on

 private:
  template <class Request, class Response>
  Unary* Answer(KernelMethod<Request, Response> method, const Call& call, const Request& request,
                Response& response) {
    return DeferredCall::StartCharged(CallContextOf(call, principal_), *unread_, response,
                                      [&](const CallContext& cancellable, Answered answered) {
                                        method(parts_, cancellable, request, response,
                                               std::move(answered));
                                      });
  }

  const RpcDependencies& parts_;
  const Principal principal_;
  const std::shared_ptr<ByteBudget> unread_ = std::make_shared<ByteBudget>(parts_.unread);
};

}  // namespace

std::unique_ptr<grpc::Service> MakeKernelService(const RpcDependencies& parts,
                                                 const Principal& principal) {
  return std::make_unique<KernelService>(parts, principal);
}

}  // namespace kiln
