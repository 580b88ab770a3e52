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

absl::Status Read(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::Slice slice;
  return Parse(ToSingleSlice(bytes, slice), message);
}

grpc::ByteBuffer Write(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer bytes;
  bool owns_bytes;
  grpc::SerializationTraits<google::protobuf::MessageLite>::Serialize(message, &bytes, &owns_bytes);
  return bytes;
}

// Reads the blob off gRPC's threads, then writes it chunk by chunk, one at a time: a client that
// stops reading holds one blob, which counts, and one chunk. Deletes itself in OnDone.
class FetchCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Started; gRPC takes it from here.
  static FetchCall* Start(const RpcDependencies& parts, ByteBudget& unread, CallContext context,
                          const grpc::ByteBuffer& bytes) {
    auto* call = new FetchCall;
    context.cancellation = call->cancellation_;
    v1::FetchRequest request;
    if (const absl::Status parsed = Read(bytes, request); !parsed.ok()) {
      call->Finish(ToGrpcStatus(parsed));
      return call;
    }
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
    v1::FetchChunk chunk;
    chunk.set_content(next.data(), next.size());
    sent_bytes_ += next.size();
    chunk_ = Write(chunk);
    StartWrite(&chunk_);
  }

  Cancellation cancellation_;
  ByteBudget::Share share_;  // of the blob
  Blob blob_;
  size_t sent_bytes_ = 0;
  grpc::ByteBuffer chunk_;
};

// The generated service with all methods taken as bytes: of a message that it cannot read, gRPC
// says UNIMPLEMENTED and no more. compile_call.h says what else bytes are good for.
using KernelServiceBase = v1::KernelService::WithRawCallbackMethod_Compile<
    v1::KernelService::WithRawCallbackMethod_CompileStream<
        v1::KernelService::WithRawCallbackMethod_Lookup<
            v1::KernelService::WithRawCallbackMethod_Nearest<
                v1::KernelService::WithRawCallbackMethod_Fetch<
                    v1::KernelService::WithRawCallbackMethod_ListToolchains<
                        v1::KernelService::WithRawCallbackMethod_GetOwn<
                            v1::KernelService::WithRawCallbackMethod_PutOwn<
                                v1::KernelService::WithRawCallbackMethod_NoteUses<
                                    v1::KernelService::Service>>>>>>>>>;

class KernelService final : public KernelServiceBase {
 public:
  KernelService(const RpcDependencies& parts, const Principal& principal)
      : parts_(parts), principal_(principal) {}

  using Call = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  using Bytes = grpc::ByteBuffer;
  Unary* Compile(Call* call, const Bytes* request, Bytes* response) override {
    return StartCompileCall(parts_, principal_, *unread_, *call, *request, *response);
  }
  grpc::ServerBidiReactor<Bytes, Bytes>* CompileStream(Call* call) override {
    return CompileStreamCall::Start(parts_, principal_, *unread_, *call);
  }
  grpc::ServerWriteReactor<Bytes>* Fetch(Call* call, const Bytes* request) override {
    return FetchCall::Start(parts_, *unread_, CallContextOf(*call, principal_), *request);
  }

// clang-format off
#define KILN_ANSWERED(Name)                                                          \
  Unary* Name(Call* call, const Bytes* request, Bytes* response) override {          \
    return Answer(kiln::Name, *call, *request, *response);                           \
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
  // Charges for the answer as message and as bytes, though the message goes first.
  template <class Request, class Response>
  Unary* Answer(KernelMethod<Request, Response> method, Call& call, const Bytes& request,
                Bytes& response) {
    struct Messages {
      Request request;
      Response response;
    };
    auto messages = std::make_shared<Messages>();
    if (const absl::Status parsed = Read(request, messages->request); !parsed.ok()) {
      return FinishedCall(call, ToGrpcStatus(parsed));
    }
    return DeferredCall::StartAnswered(
        CallContextOf(call, principal_),
        [&](const CallContext& cancellable, DeferredCall::Answer answer) {
          method(
              parts_, cancellable, messages->request, messages->response,
              [this, messages, &response, answer = std::move(answer)](const absl::Status& status) {
                if (!status.ok()) return answer(status, nullptr);
                auto share = unread_->Take(2 * messages->response.ByteSizeLong());
                if (!share.ok()) return answer(share.status(), nullptr);
                response = Write(messages->response);
                answer(status, *std::move(share));
              });
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
