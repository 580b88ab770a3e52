#include "daemon/rpc/compile_call.h"

#include <grpcpp/support/slice.h>

#include <utility>
#include <vector>

#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/status.h"

namespace kiln {
namespace {

// Takes the piece, and keeps what it shares alive.
grpc::Slice ToSlice(ReplyPiece piece) {
  auto* kept = new ReplyPiece(std::move(piece));
  const std::string_view bytes = BytesOf(*kept);
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* held) { delete static_cast<ReplyPiece*>(held); }, kept);
}

grpc::Status FillResponse(const CompileAnswer& answer, DescriptionMemo& descriptions,
                          grpc::ByteBuffer& response) {
  CompileReply reply = SerializeAnswer(answer, descriptions);
  if (const auto* error = std::get_if<v1::RpcStatus>(&reply)) return ToGrpcStatus(*error);
  std::vector<grpc::Slice> slices;
  for (ReplyPiece& piece : std::get<ReplyPieces>(reply))
    slices.push_back(ToSlice(std::move(piece)));
  grpc::ByteBuffer(slices.data(), slices.size()).Swap(&response);
  return grpc::Status::OK;
}

Prepared PrepareBytes(const RpcDependencies& parts, const grpc::ByteBuffer& request) {
  grpc::Slice slice;
  if (!request.TrySingleSlice(&slice).ok() && !request.DumpToSingleSlice(&slice).ok()) {
    return Internal("the request's bytes cannot be read");
  }
  return Prepare(parts, {reinterpret_cast<const char*>(slice.begin()), slice.size()});
}

}  // namespace

class CompileCall::Waiting final : public grpc::ServerUnaryReactor {
 public:
  explicit Waiting(std::shared_ptr<CompileCall> call) : call_(std::move(call)) {}

  void OnCancel() override { call_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<CompileCall> call_;
};

grpc::ServerUnaryReactor* CompileCall::Start(const Principal& principal,
                                             const grpc::ByteBuffer& request) {
  CallContext context = CallContextOf(call_, principal);
  context.cancellation = cancellation_;
  StartCompile(parts_, std::move(context), PrepareBytes(parts_, request),
               [self = shared_from_this()](const CompileAnswer& answer) { self->Finish(answer); });

  const std::lock_guard lock(mutex_);
  if (finished_) return FinishedCall(call_, *std::move(finished_));
  waiting_ = new Waiting(shared_from_this());
  return waiting_;
}

void CompileCall::Finish(const CompileAnswer& answer) {
  pass_ = answer.pass;
  grpc::Status status = FillResponse(answer, parts_.descriptions, response_);
  grpc::ServerUnaryReactor* reactor;
  {
    const std::lock_guard lock(mutex_);
    reactor = waiting_;
    if (reactor == nullptr) finished_ = std::move(status);
  }
  // Outside of the lock: from here on gRPC may delete the reactor at any moment.
  if (reactor != nullptr) reactor->Finish(std::move(status));
}

}  // namespace kiln
