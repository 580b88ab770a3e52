#include "daemon/rpc/compile_call.h"

#include <grpcpp/support/slice.h>

#include <utility>

#include "daemon/rpc/compile_start.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/status.h"

namespace kiln {
namespace {

// A piece of an answer and its share of the budget. Lives until gRPC has sent the piece.
struct KeptPiece {
  ReplyPiece piece;
  ByteBudget::Share share;
};

// Takes the piece, and keeps what it shares alive.
grpc::Slice ToSlice(ReplyPiece piece, ByteBudget::Share share) {
  auto* kept = new KeptPiece{std::move(piece), std::move(share)};
  const std::string_view bytes = BytesOf(kept->piece);
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* held) { delete static_cast<KeptPiece*>(held); }, kept);
}

grpc::Status FillResponse(const CompileAnswer& answer, ByteBudget& unread,
                          grpc::ByteBuffer& response) {
  CompileReply reply = SerializeAnswer(answer);
  if (const auto* error = std::get_if<v1::RpcStatus>(&reply)) return ToGrpcStatus(*error);
  auto& pieces = std::get<ReplyPieces>(reply);
  auto share = unread.Take(SizeOf(pieces));
  if (!share.ok()) return ToGrpcStatus(share.status());
  ReplySlices slices;
  AppendSlices(std::move(pieces), *std::move(share), slices);
  grpc::ByteBuffer(slices.data(), slices.size()).Swap(&response);
  return grpc::Status::OK;
}

// Deletes itself in OnDone.
class WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  WaitingCall(const CallContext& context, ByteBudget& unread, grpc::ByteBuffer& response)
      : cancellation_(context.cancellation), unread_(unread), response_(response) {}

  void Answer(const CompileAnswer& answer) {
    pass_ = answer.pass;
    Finish(FillResponse(answer, unread_, response_));
  }
  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  Cancellation cancellation_;
  ByteBudget& unread_;
  grpc::ByteBuffer& response_;
  RequestGate::Pass pass_;  // until gRPC is through with the answer
};

}  // namespace

void AppendSlices(ReplyPieces pieces, ByteBudget::Share share, ReplySlices& slices) {
  for (ReplyPiece& piece : pieces) {
    const bool is_last = &piece == &pieces.back();
    slices.push_back(ToSlice(std::move(piece), is_last ? std::move(share) : nullptr));
  }
}

std::string_view ToSingleSlice(const grpc::ByteBuffer& buffer, grpc::Slice& slice) {
  if (!buffer.TrySingleSlice(&slice).ok() && !buffer.DumpToSingleSlice(&slice).ok()) return {};
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

grpc::ServerUnaryReactor* StartCompileCall(const RpcDependencies& parts, const Principal& principal,
                                           ByteBudget& unread, grpc::CallbackServerContext& call,
                                           const grpc::ByteBuffer& request,
                                           grpc::ByteBuffer& response) {
  grpc::Slice slice;
  const Prepared prepared = Prepare(parts, ToSingleSlice(request, slice));
  const CallContext context = CallContextOf(call, principal);
  if (const auto found = FindAnswer(parts, context, prepared)) {
    return FinishedCall(call, FillResponse(*found, unread, response));
  }
  auto* waiting = new WaitingCall(context, unread, response);
  StartCompile(parts, context, prepared,
               [waiting](const CompileAnswer& answer) { waiting->Answer(answer); });
  return waiting;
}

}  // namespace kiln
